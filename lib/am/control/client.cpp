#include "am/control/client.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "am/base/text.h"

namespace am::control {

namespace {

using ClientClock = std::chrono::steady_clock;

bool is_remote(const JobAddress& address) { return address.socket.empty() && address.tcp; }

int connect_to(const std::filesystem::path& socket) {
  if (socket.native().size() > kLongestSocketPath) {
    throw Error(ErrorKind::kRuntime,
                cat(socket.string(), ": the path is too long for a Unix socket"));
  }
  const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0)
    throw Error(ErrorKind::kRuntime, cat("cannot create a socket: ", std::strerror(errno)));
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, socket.c_str(), socket.native().size());
  if (::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    const int reason = errno;
    ::close(fd);
    throw Error(ErrorKind::kRuntime,
                cat("cannot attach to the job at ", socket.string(), ": ", std::strerror(reason)),
                reason == EACCES ? "only the user who started the job can attach to it" : "");
  }
  return fd;
}

}  // namespace

ConnectionLost::ConnectionLost() : Error(ErrorKind::kRuntime, "the job closed the connection") {}

Client::Client(const JobAddress& address, Json hello, std::chrono::milliseconds patience,
               size_t largest_reply)
    : fd_(is_remote(address) ? connect_tcp(*address.tcp, patience) : connect_to(address.socket)),
      reply_(largest_reply) {
  try {
    hello["protocol"] = kProtocol;
    const std::string nonce = is_remote(address) ? draw_nonce() : std::string();
    if (!nonce.empty()) hello["nonce"] = nonce;
    send_bytes(cat(kMagic, to_frame(dump_json(hello, -1))));
    if (!nonce.empty()) prove(address, nonce, patience);
    welcome_ = expect(address, patience);
  } catch (...) {
    ::close(fd_);
    throw;
  }
}

Json Client::expect(const JobAddress& address, std::chrono::milliseconds patience) {
  auto message = receive(patience);
  if (!message) {
    const bool remote = is_remote(address);
    throw Error(ErrorKind::kRuntime,
                cat("the job at ", remote ? address.tcp->text() : address.socket.string(),
                    " does not answer"),
                remote ? std::string() : cat("is its process ", address.pid, " stopped?"));
  }
  if (text_in(*message, "event") == "refused") {
    throw Error(ErrorKind::kRuntime,
                text_in(*message, "message", "the job refused the connection"));
  }
  return *std::move(message);
}

void Client::prove(const JobAddress& address, const std::string& nonce,
                   std::chrono::milliseconds patience) {
  const Token token = Token::read(address.token);
  const Json challenge = expect(address, patience);
  const Nonces nonces{nonce, text_in(challenge, "nonce")};
  if (!token.proves("job", nonces, text_in(challenge, "proof"))) {
    throw Error(ErrorKind::kRuntime,
                cat("the server at ", address.tcp->text(), " does not know the token in ",
                    address.token.string()),
                "give the token and the address of the same job: the token may belong to another "
                "job, or the port to another program");
  }
  send_bytes(to_frame(dump_json(Json{{"proof", token.proof("client", nonces)}}, -1)));
}

Client::~Client() { ::close(fd_); }

void Client::send_bytes(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) throw ConnectionLost();
    bytes.remove_prefix(static_cast<size_t>(count));
  }
}

int64_t Client::send(Json request) {
  const std::lock_guard lock(sending_);
  request["id"] = ++last_id_;
  const std::string text = dump_json(request, -1);
  if (text.size() > kLargestToJob) {
    throw Error(ErrorKind::kUsage, "the command is too long to be sent to a job");
  }
  send_bytes(to_frame(text));
  return last_id_;
}

bool Client::was_sent(int64_t id) {
  const std::lock_guard lock(sending_);
  return id > 0 && id <= last_id_;
}

std::optional<Json> Client::whole_message() {
  while (const auto text = reader_.next()) {
    auto message = parse_message(*text);
    if (!message) throw not_a_job();
    const auto id = message->find("id");
    if (id == message->end()) return message;
    if (!id->is_number_integer()) throw not_a_job();
    const auto number = id->get<int64_t>();
    // Refuses a reply to a request that this client has not sent, and a reply that begins before
    // the previous reply is complete.
    if (!was_sent(number) || (replied_ != 0 && replied_ != number)) throw not_a_job();
    replied_ = number;
    auto reply = reply_.add(*message);
    if (!reply) continue;
    replied_ = 0;
    return Json{{"id", number}, {"reply", *std::move(reply)}};
  }
  return std::nullopt;
}

std::optional<Json> Client::receive(std::chrono::milliseconds patience) {
  const auto end = ClientClock::now() + patience;
  std::array<char, size_t{64} << 10> bytes;
  for (;;) {
    if (auto message = whole_message()) return message;
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(end - ClientClock::now()).count();
    pollfd wait{fd_, POLLIN, 0};
    const int ready = ::poll(&wait, 1, static_cast<int>(std::max<int64_t>(left, 0)));
    if (ready < 0) return std::nullopt;  // interrupted by a signal, which the caller handles
    if (ready == 0) return std::nullopt;
    const ssize_t count = ::recv(fd_, bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (count < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (count <= 0) throw ConnectionLost();
    if (!reader_.add({bytes.data(), static_cast<size_t>(count)})) {
      throw not_a_job();
    }
  }
}

}  // namespace am::control
