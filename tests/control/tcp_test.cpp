#include "am/control/tcp.h"

#include <pthread.h>
#include <sys/stat.h>

#include <atomic>
#include <csignal>
#include <fstream>
#include <thread>
#include <vector>

#include "am/base/error.h"
#include "am/base/file.h"
#include "am/control/token.h"
#include "control/hostile_peer.h"

namespace am::control {
namespace {

using namespace std::chrono_literals;
namespace fs = std::filesystem;

TEST_CASE("addresses of TCP") {
  CHECK(parse_tcp("7000").text() == "127.0.0.1:7000");
  CHECK(parse_tcp("7000").is_loopback());
  CHECK(parse_tcp("node7:7000").text() == "node7:7000");
  CHECK_FALSE(parse_tcp("0.0.0.0:0").is_loopback());
  CHECK(parse_tcp("[::1]:7000").host == "::1");
  CHECK(parse_tcp("[::1]:7000").text() == "[::1]:7000");
  for (const char* text :
       {"", "x", "node7:", ":7000", "node7:65536", "node7:-1", "::1:7000", "1 "}) {
    INFO(text);
    CHECK_THROWS_WITH(parse_tcp(text), Catch::Contains("is not an address"));
  }
}

TEST_CASE("a proof is of one who knows, of one end and of one connection") {
  const Token token = Token::make();
  const Nonces nonces{draw_nonce(), draw_nonce()};
  const std::string proof = token.proof("client", nonces);
  CHECK(token.proves("client", nonces, proof));
  CHECK_FALSE(token.proves("job", nonces, proof));
  CHECK_FALSE(token.proves("client", {nonces.job, nonces.client}, proof));
  CHECK_FALSE(token.proves("client", {draw_nonce(), nonces.job}, proof));
  CHECK_FALSE(Token::make().proves("client", nonces, proof));
  CHECK_FALSE(token.proves("client", nonces, proof.substr(2)));
  CHECK_FALSE(token.proves("client", nonces, ""));
  CHECK(proof.find(token.text()) == std::string::npos);
  CHECK(nonces.client != nonces.job);
  CHECK(is_nonce(nonces.client));
  CHECK_FALSE(is_nonce("00"));
  CHECK_FALSE(is_nonce(std::string(64, 'g')));
}

TEST_CASE("a token is read from a file that is its owner's alone") {
  const Scratch scratch;
  const fs::path file = scratch.path / "token";
  const Token token = Token::make();
  write_file_atomically(file, token.text() + "\n");
  fs::permissions(file, fs::perms::owner_read | fs::perms::owner_write);
  CHECK(Token::read(file).text() == token.text());
  fs::permissions(file, fs::perms::group_read, fs::perm_options::add);
  CHECK_THROWS_WITH(Token::read(file), Catch::Contains("other users may access"));
  fs::permissions(file, fs::perms::group_read, fs::perm_options::remove);
  write_file_atomically(file, "no token");
  fs::permissions(file, fs::perms::owner_read | fs::perms::owner_write);
  CHECK_THROWS_WITH(Token::read(file), Catch::Contains("holds no valid token"));
  CHECK_THROWS_WITH(Token::read(scratch.path / "none"), Catch::Contains("No such file"));
}

// Job that listens on a Unix socket and over TCP, and answers every request with "yes".
struct TcpJob {
  Scratch folder;
  run_folder::RunFolder run{folder.path};
  ControlPlace place{run, {}, TcpAddress{}};
  Server server{place.take_socket(), options()};
  std::atomic<bool> ending = false;
  std::thread answers;

  TcpJob() {
    server.start();
    answers = std::thread([this] {
      while (!ending) {
        if (const auto request = server.take(10ms)) {
          server.reply(request->client, request->id, {{"yes", true}});
        }
      }
    });
  }
  TcpJob(const TcpJob&) = delete;
  TcpJob& operator=(const TcpJob&) = delete;
  ~TcpJob() {
    ending = true;
    answers.join();
  }

  ServerOptions options() {
    ServerOptions all;
    all.tcp_socket = place.take_tcp_socket();
    all.token = place.token();
    return all;
  }
  // Returns the job's address without the Unix socket, as a client on another machine uses it.
  JobAddress remote() const {
    JobAddress address = place.address();
    address.socket.clear();
    return address;
  }
  bool answers_at(const JobAddress& address) const {
    Client client(address, Json::object(), 5s);
    client.send({{"input", "ls"}});
    const auto reply = client.receive(5s);
    return reply && reply->at("reply").at("yes") == true;
  }
};

TEST_CASE("who knows the token attaches over TCP, and who does not is refused") {
  TcpJob job;
  CHECK(job.answers_at(job.remote()));
  CHECK(job.answers_at(job.place.address()));
  const auto found = find_job(job.run);
  REQUIRE(found);
  CHECK(found->address.tcp->text() == job.place.address().tcp->text());
  CHECK(found->address.tcp->is_loopback());
  CHECK(found->address.token == job.folder.path / "control/token");
  struct stat info = {};
  REQUIRE(::stat(found->address.token.c_str(), &info) == 0);
  CHECK((info.st_mode & 07777U) == 0600);

  JobAddress wrong = job.remote();
  wrong.token = job.folder.path / "other";
  write_file_atomically(wrong.token, Token::make().text());
  fs::permissions(wrong.token, fs::perms::owner_read | fs::perms::owner_write);
  CHECK_THROWS_WITH(Client(wrong, Json::object(), 5s), Catch::Contains("does not know the token"));
  CHECK(job.answers_at(job.remote()));
}

TEST_CASE("a signal does not end the wait for a connection") {
  TcpAddress address = parse_tcp("127.0.0.1:0");
  const int listener = listen_tcp(address);
  REQUIRE(::listen(listener, 0) == 0);  // one connection, which nobody accepts, fills the queue
  const int first = connect_tcp(address, 5s);
  struct sigaction ignore = {}, before = {};
  ignore.sa_handler = [](int) {};
  REQUIRE(::sigaction(SIGUSR1, &ignore, &before) == 0);
  std::thread other([&, self = ::pthread_self()] {
    std::this_thread::sleep_for(100ms);
    ::pthread_kill(self, SIGUSR1);
    std::this_thread::sleep_for(100ms);
    ::close(::accept(listener, nullptr, nullptr));
  });
  int second = -1;
  CHECK_NOTHROW(second = connect_tcp(address, 5s));
  other.join();
  ::sigaction(SIGUSR1, &before, nullptr);
  for (const int fd : {listener, first, second}) ::close(fd);
}

// Sends bytes to the TCP port of the job. Returns the bytes that the job sends until it closes the
// connection or sends nothing more.
std::string heard(const TcpAddress& address, std::string_view bytes) {
  const int fd = connect_tcp(address, 5s);
  REQUIRE(::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL) ==
          static_cast<ssize_t>(bytes.size()));
  std::string all;
  char buffer[4096];
  pollfd wait{fd, POLLIN, 0};
  while (::poll(&wait, 1, 300) == 1) {
    const ssize_t count = ::recv(fd, buffer, sizeof buffer, 0);
    if (count <= 0) break;
    all.append(buffer, static_cast<size_t>(count));
  }
  ::close(fd);
  return all;
}

TEST_CASE("strangers over TCP learn nothing and keep nobody out") {
  TcpJob job;
  const TcpAddress at = *job.place.address().tcp;
  const auto hello = [](const Json& words) { return cat(kMagic, to_frame(dump_json(words, -1))); };
  CHECK(heard(at, "GET / HTTP/1.1\r\n\r\n").empty());
  CHECK_THAT(heard(at, hello({{"protocol", kProtocol}})),
             Catch::Contains("must prove that it knows the token"));
  CHECK_THAT(heard(at, hello({{"protocol", kProtocol}, {"nonce", "00"}})),
             Catch::Contains("must prove that it knows the token"));
  CHECK_THAT(heard(at, hello({{"protocol", 99}})), Catch::Contains("another version"));
  const std::string nonce = draw_nonce();
  const Json asked = {{"protocol", kProtocol}, {"nonce", nonce}};
  const std::string challenge = heard(at, hello(asked));
  CHECK_THAT(challenge, Catch::Contains("challenge"));
  CHECK(challenge.find("welcome") == std::string::npos);
  // The job refuses every message that replaces a valid proof: a request, an empty proof, a wrong
  // proof, and a proof that is not a string.
  for (const Json& instead : {Json{{"id", 1}, {"input", "ls"}}, Json{{"proof", ""}},
                              Json{{"proof", std::string(64, '0')}}, Json{{"proof", 3}}}) {
    const std::string said =
        heard(at, cat(hello(asked), to_frame(dump_json(instead, -1)),
                      to_frame(dump_json(Json{{"id", 1}, {"input", "ls"}}, -1))));
    CHECK_THAT(said, Catch::Contains("does not have the token"));
    CHECK(said.find("welcome") == std::string::npos);
    CHECK(said.find("yes") == std::string::npos);
  }
  CHECK(job.server.clients().empty());
  // TCP connections without a handshake displace each other, but no local client and no client with
  // the token.
  std::vector<int> silent;
  for (int i = 0; i < 40; ++i) silent.push_back(connect_tcp(at, 5s));
  CHECK(job.answers_at(job.place.address()));
  CHECK(job.answers_at(job.remote()));
  for (const int fd : silent) ::close(fd);
}

TEST_CASE("no proof is given to who is not the job") {
  const Scratch scratch;
  JobAddress address;
  address.tcp = TcpAddress{};
  const int listener = listen_tcp(*address.tcp);
  address.token = scratch.path / "token";
  write_file_atomically(address.token, Token::make().text());
  fs::permissions(address.token, fs::perms::owner_read | fs::perms::owner_write);
  std::string said;
  std::thread impostor([&] {
    pollfd wait{listener, POLLIN, 0};
    if (::poll(&wait, 1, 5000) != 1) return;
    const int fd = ::accept(listener, nullptr, nullptr);
    const std::string challenge = to_frame(dump_json(
        Json{{"event", "challenge"}, {"nonce", draw_nonce()}, {"proof", std::string(64, '0')}},
        -1));
    ::send(fd, challenge.data(), challenge.size(), MSG_NOSIGNAL);
    char buffer[4096];
    for (;;) {
      const ssize_t count = ::recv(fd, buffer, sizeof buffer, 0);
      if (count <= 0) break;
      said.append(buffer, static_cast<size_t>(count));
    }
    ::close(fd);
  });
  CHECK_THROWS_WITH(Client(address, Json::object(), 5s),
                    Catch::Contains("does not know the token"));
  impostor.join();
  ::close(listener);
  CHECK_THAT(said, Catch::Contains("nonce"));
  CHECK(said.find("proof") == std::string::npos);
  CHECK_THROWS_WITH(Client(address, Json::object(), 1s), Catch::Contains("Connection refused"));
}

}  // namespace
}  // namespace am::control
