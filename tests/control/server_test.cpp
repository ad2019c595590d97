#include "am/control/server.h"

#include <dirent.h>
#include <sys/resource.h>

#include <fstream>
#include <functional>
#include <thread>
#include <vector>

#include "control/hostile_peer.h"

namespace am::control {
namespace {

using namespace std::chrono_literals;

// A thread that answers every request with the "input" of the request.
class Echo {
 public:
  explicit Echo(Server& server) : server_(server), thread_([this] { run(); }) {}
  Echo(const Echo&) = delete;
  Echo& operator=(const Echo&) = delete;
  ~Echo() {
    ending_ = true;
    thread_.join();
  }
  int64_t answered() const { return answered_; }

 private:
  void run() {
    while (!ending_) {
      const auto request = server_.take(10ms);
      if (!request) continue;
      ++answered_;
      server_.reply(request->client, request->id, {{"echo", request->body.value("input", "")}});
    }
  }

  Server& server_;
  std::atomic<bool> ending_ = false;
  std::atomic<int64_t> answered_ = 0;
  std::thread thread_;
};

std::string ask(Client& client, const std::string& input) {
  const int64_t id = client.send({{"input", input}});
  for (;;) {
    const auto message = client.receive(5s);
    REQUIRE(message);
    if (message->contains("id") && message->at("id") == id) {
      return message->at("reply").at("echo").get<std::string>();
    }
  }
}

// Sanitizers delay the release of freed memory, so memory is not checked with them.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kMemoryTells = false;
#else
constexpr bool kMemoryTells = true;
#endif

int64_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  int64_t all = 0;
  int64_t resident = 0;
  file >> all >> resident;
  return resident * ::sysconf(_SC_PAGESIZE);
}

size_t open_descriptors() {
  size_t count = 0;
  DIR* folder = ::opendir("/proc/self/fd");
  while (::readdir(folder) != nullptr) ++count;
  ::closedir(folder);
  return count;
}

TEST_CASE("requests of several clients are answered, and an unasked server is not wanted") {
  Job job;
  CHECK_FALSE(job.server.is_wanted());
  const auto one = job.attach();
  const auto two = job.attach();
  CHECK(one->welcome().at("event") == "welcome");
  CHECK_FALSE(job.server.is_wanted());
  one->send({{"input", "waits"}});
  while (!job.server.is_wanted()) std::this_thread::sleep_for(1ms);
  CHECK(job.server.take(1s)->body.at("input") == "waits");
  CHECK_FALSE(job.server.is_wanted());
  const Echo echo(job.server);
  CHECK(ask(*one, "first") == "first");
  CHECK(ask(*two, "second") == "second");
  CHECK(job.server.clients().size() == 2);
}

TEST_CASE("functions of the options run until stop() has returned, and no later") {
  std::atomic<bool> stopped = false;
  std::atomic<int> calls = 0;
  std::atomic<int> late = 0;
  ServerOptions options;
  options.at_once = [&](const ClientInfo&, const Request&) {
    ++calls;
    if (stopped) ++late;
    return true;
  };
  Job job(std::move(options));
  const auto client = job.attach();
  std::thread asks([&] {
    try {
      for (;;) client->send({{"input", "status"}});
    } catch (const Error&) {
      // The server has closed the connection.
    }
  });
  while (calls < 100) std::this_thread::sleep_for(1ms);
  job.server.stop();
  stopped = true;
  asks.join();
  job.server.stop();
  CHECK(late == 0);
}

TEST_CASE("events reach all, and a client that goes is forgotten with what it asked") {
  std::atomic<uint64_t> gone = 0;
  ServerOptions options;
  options.gone = [&](uint64_t client) { gone = client; };
  Job job(std::move(options));
  const auto stays = job.attach();
  auto goes = job.attach();
  job.server.event_to_all({{"event", "step"}, {"step", 3}});
  CHECK(stays->receive(5s)->at("step") == 3);
  CHECK(goes->receive(5s)->at("step") == 3);
  goes->send({{"input", "never"}});
  while (!job.server.is_wanted()) std::this_thread::sleep_for(1ms);
  goes.reset();
  for (int i = 0; i < 5000 && gone == 0; ++i) std::this_thread::sleep_for(1ms);
  CHECK(gone == 2);
  CHECK_FALSE(job.server.is_wanted());
  CHECK(job.server.clients().size() == 1);
}

TEST_CASE("a request that waits can be taken back") {
  Job job;
  const auto client = job.attach();
  const int64_t id = client->send({{"input", "a"}});
  while (!job.server.is_wanted()) std::this_thread::sleep_for(1ms);
  const uint64_t number = job.server.clients().front().number;
  CHECK_FALSE(job.server.withdraw(number + 1, id));
  CHECK(job.server.withdraw(number, id));
  CHECK_FALSE(job.server.withdraw(number, id));
  CHECK_FALSE(job.server.is_wanted());
  CHECK_FALSE(job.server.take(0ms));
}

TEST_CASE("what is seen to at once never waits for a step") {
  Server* server = nullptr;
  ServerOptions options;
  options.at_once = [&](const ClientInfo&, const Request& request) {
    if (request.body.value("input", "") != "status") return false;
    server->reply(request.client, request.id, {{"echo", "now"}});
    return true;
  };
  Job job(std::move(options));
  server = &job.server;  // set before any client connects
  const auto client = job.attach();
  client->send({{"input", "waits"}});
  CHECK(ask(*client, "status") == "now");
}

TEST_CASE("garbage, HTTP, lengths of 4 GiB and broken JSON close their own connection alone") {
  Job job;
  const Echo echo(job.server);
  const auto client = job.attach();
  const std::string huge("\xff\xff\xff\xff", 4);
  for (const std::string& bytes :
       {std::string("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"), std::string("POST /"),
        std::string("\x16\x03\x01\x02\x00", 5), std::string(100000, '\xff'),
        std::string(4096, '\0'), cat(kMagic, huge), cat(kMagic, to_frame("not json")),
        cat(kMagic, to_frame("[]")), cat(hello_bytes(), huge), cat(hello_bytes(), to_frame("{")),
        cat(hello_bytes(), to_frame("{\"input\": \"no id\"}")),
        cat(hello_bytes(), to_frame("{\"id\": \"text\"}")),
        cat(hello_bytes(), to_frame(cat("{\"id\": 1, \"a\": ", std::string(100000, '['))))}) {
    INFO(bytes.substr(0, 20));
    Raw raw(job);
    raw.send(bytes);
    CHECK(raw.is_closed(1s));  // earlier than the timeout of the handshake
    if (bytes.compare(0, 8, kMagic) != 0) CHECK(raw.said().empty());
  }
  CHECK(ask(*client, "still there") == "still there");
}

// Fake job with its own socket. The job welcomes a client and answers the client's request with
// frames that the test supplies.
class Impostor {
 public:
  explicit Impostor(std::function<std::vector<Json>(int64_t)> frames)
      : frames_(std::move(frames)), socket_(place_.take_socket()), thread_([this] { run(); }) {}
  Impostor(const Impostor&) = delete;
  Impostor& operator=(const Impostor&) = delete;
  ~Impostor() {
    client_.reset();
    thread_.join();
    ::close(socket_);
  }

  static constexpr size_t kLargest = size_t{8}
                                     << 20;  // largest reply that the client accepts, in bytes

  // Sends a request and waits for the reply. Returns the error of the client; empty if a reply
  // arrives.
  std::string problem_of_asking() {
    client_ = std::make_unique<Client>(place_.address(), Json::object(), 5s, kLargest);
    client_->send({{"input", "ls"}});
    try {
      while (const auto message = client_->receive(60s)) {
        if (message->contains("id")) return {};
      }
    } catch (const Error& error) {
      return error.what();
    }
    return "no answer";
  }

 private:
  void run() {
    pollfd wait{socket_, POLLIN, 0};
    ::poll(&wait, 1, 5000);
    const int fd = ::accept(socket_, nullptr, nullptr);
    std::string all = to_frame(dump_json(Json{{"event", "welcome"}}, -1));
    ::send(fd, all.data(), all.size(), MSG_NOSIGNAL);
    for (int64_t i = 0; i < 1000; ++i) {
      for (const Json& frame : frames_(i)) {
        const std::string bytes = to_frame(dump_json(frame, -1));
        if (::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL) < 0) i = 1000;
      }
    }
    ::close(fd);
  }

  std::function<std::vector<Json>(int64_t)> frames_;
  Scratch folder_;
  run_folder::RunFolder run_{folder_.path};
  ControlPlace place_{run_};
  int socket_;
  std::unique_ptr<Client> client_;
  std::thread thread_;
};

TEST_CASE("answers that nobody asked for are not kept") {
  const std::string piece(1 << 20, 'a');
  const int64_t before = resident_bytes();
  SECTION("under ids of no request") {
    Impostor impostor([&](int64_t i) {
      return std::vector<Json>{{{"id", i + 2}, {"part", 0}, {"last", false}, {"piece", piece}}};
    });
    CHECK_THAT(impostor.problem_of_asking(), Catch::Contains("not a job of am-run"));
  }
  SECTION("two replies at a time") {
    Impostor impostor([&](int64_t i) {
      return std::vector<Json>{{{"id", i % 2}, {"part", 0}, {"last", false}, {"piece", piece}}};
    });
    CHECK_THAT(impostor.problem_of_asking(), Catch::Contains("not a job of am-run"));
  }
  SECTION("one without an end") {
    Impostor impostor([&](int64_t i) {
      return std::vector<Json>{{{"id", 1}, {"part", i}, {"last", false}, {"piece", piece}}};
    });
    CHECK_THAT(impostor.problem_of_asking(), Catch::Contains("it has more than"));
  }
  if (kMemoryTells) CHECK(resident_bytes() - before < int64_t{64} << 20);
}

TEST_CASE("a length that is announced takes no memory") {
  Job job;
  const int64_t before = resident_bytes();
  std::vector<Raw> all;
  for (int i = 0; i < 40; ++i) {
    all.emplace_back(job);
    // Announces a frame of one MiB, which is an allowed length, but sends only two bytes of the
    // frame's text.
    all.back().send(cat(hello_bytes(), std::string("\x00\x00\x10\x00{\"", 6)));
  }
  std::this_thread::sleep_for(100ms);
  if (kMemoryTells) CHECK(resident_bytes() - before < 8 << 20);
}

TEST_CASE("who connects by the hundred and says nothing keeps nobody out") {
  ServerOptions options;
  options.limits.handshake = 300ms;
  Job job(std::move(options));
  const Echo echo(job.server);
  const size_t before = open_descriptors();
  std::vector<Raw> silent;
  for (int i = 0; i < 300; ++i) {
    silent.emplace_back(job);
    if (i % 3 == 1) silent.back().send("AMR");
    if (i % 3 == 2) silent.back().send(cat(kMagic, std::string_view("\x10\x00", 2)));
  }
  const auto client = job.attach();
  CHECK(ask(*client, "let in") == "let in");
  // This process contains both ends of the connections: 300 descriptors of the silent clients,
  // those of the server's half-open connections, and a few more.
  CHECK(open_descriptors() - before < 300 + ServerLimits().half_open + 8);
  for (Raw& raw : silent) CHECK(raw.is_closed(2s));
  CHECK(ask(*client, "still there") == "still there");
  CHECK(job.server.clients().size() == 1);
}

TEST_CASE("more clients than there may be are told so") {
  ServerOptions options;
  options.limits.clients = 3;
  Job job(std::move(options));
  std::vector<std::unique_ptr<Client>> clients;
  for (int i = 0; i < 3; ++i) clients.push_back(job.attach());
  CHECK_THROWS_WITH(job.attach(), Catch::Contains("too many"));
  clients.pop_back();
  while (job.server.clients().size() == 3) std::this_thread::sleep_for(1ms);
  clients.push_back(job.attach());
}

TEST_CASE("another user is refused before a word, and another version is told so") {
  ServerOptions options;
  options.admits = [](uid_t) { return false; };
  Job closed(std::move(options));
  Raw raw(closed);
  raw.send(hello_bytes());
  CHECK(raw.is_closed(1s));
  CHECK(raw.said().empty());
  Job open;
  Raw other(open);
  other.send(cat(kMagic, to_frame("{\"protocol\":99}")));
  CHECK(other.is_closed(1s));
  CHECK(other.said().find("another version") != std::string::npos);
}

TEST_CASE("a hundred thousand commands wait their turn outside of the job") {
  Job job;
  const auto other = job.attach();
  const int64_t before = resident_bytes();
  std::thread flood([raw = Raw(job)] {
    std::string bytes = hello_bytes();
    for (int i = 1; i <= 100000; ++i) {
      bytes += to_frame(cat("{\"id\":", i, ",\"input\":\"stats *\"}"));
    }
    raw.send(bytes);  // returns when all bytes are sent, or when the server closes the connection
  });
  std::this_thread::sleep_for(200ms);
  if (kMemoryTells) CHECK(resident_bytes() - before < 16 << 20);
  // The queue of each client is short, so the request of another client is soon served.
  other->send({{"input", "mine"}});
  int64_t turns = 0;
  for (bool mine = false; !mine; ++turns) {
    const auto request = job.server.take(5s);
    REQUIRE(request);
    mine = request->body.at("input") == "mine";
  }
  CHECK(turns <= 2 * 16 + 2);
  {
    const Echo echo(job.server);
    // The flooding client reads no answers. The server disconnects this client if its output queue
    // is full, or else answers all its requests.
    CHECK(ask(*other, "again") == "again");
    flood.join();
  }
  if (kMemoryTells) CHECK(resident_bytes() - before < 48 << 20);
}

TEST_CASE("a client that does not read loses events with a count, and then nothing else") {
  ServerOptions options;
  options.limits.output_bytes = 64 << 10;
  Job job(std::move(options));
  const Echo echo(job.server);
  const auto slow = job.attach();
  const auto other = job.attach();
  constexpr int kEvents = 2000;
  for (int i = 0; i < kEvents; ++i) {
    job.server.event(1, {{"event", "step"}, {"step", i}, {"text", std::string(1000, 'x')}});
  }
  CHECK(ask(*other, "not disturbed") == "not disturbed");
  int seen = 0;
  int64_t dropped = 0;
  while (seen + dropped < kEvents) {
    const auto message = slow->receive(5s);
    REQUIRE(message);
    if (message->at("event") == "dropped") {
      dropped += message->at("count").get<int64_t>();
    } else {
      ++seen;
    }
  }
  CHECK(seen + dropped == kEvents);
  CHECK(dropped > kEvents / 2);
  CHECK(ask(*slow, "goes on") == "goes on");
}

TEST_CASE("a client that reads nothing at all is left") {
  ServerOptions options;
  options.limits.output_bytes = 64 << 10;
  options.limits.stalled = 200ms;
  Job job(std::move(options));
  const auto client = job.attach();
  for (int i = 0; i < 5000 && !job.server.clients().empty(); ++i) {
    job.server.event(1, {{"event", "step"}, {"text", std::string(1000, 'x')}});
    std::this_thread::sleep_for(1ms);
  }
  CHECK(job.server.clients().empty());
}

TEST_CASE("a job without descriptors goes on listening") {
  Job job;
  const Echo echo(job.server);
  const auto client = job.attach();
  // This request also prepares UBSan's vptr check, which opens a pipe at the first use of each
  // type. Without a free descriptor, the check would report a valid object as invalid.
  CHECK(ask(*client, "before") == "before");
  rlimit before = {};
  ::getrlimit(RLIMIT_NOFILE, &before);
  Raw late(job);  // in the backlog of the kernel, not accepted by the server
  std::this_thread::sleep_for(50ms);
  rlimit none = before;
  none.rlim_cur = 8;  // descriptors 0 to 7 are all in use
  {
    const Raw waits(job);
    ::setrlimit(RLIMIT_NOFILE, &none);
    CHECK(ask(*client, "without") == "without");
    ::setrlimit(RLIMIT_NOFILE, &before);
  }
  const auto next = job.attach();
  CHECK(ask(*next, "with") == "with");
}

TEST_CASE("the last event is sent before the job leaves everybody") {
  auto job = std::make_unique<Job>();
  const auto client = job->attach();
  job->server.end({{"event", "ended"}, {"steps", 20}}, 2s);
  job.reset();
  CHECK(client->receive(5s)->at("steps") == 20);
  CHECK_THROWS_AS(client->receive(5s), ConnectionLost);
  CHECK_THROWS_AS(client->send({{"input", "ls"}}), ConnectionLost);
}

}  // namespace
}  // namespace am::control
