#include "am/control/listener.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "am/base/error.h"
#include "am/base/signals_blocked.h"
#include "am/control/tcp.h"

namespace am::control {

namespace {

// Largest number of bytes that are read from one client before the next client is served.
constexpr size_t kReadAtOnce = size_t{64} << 10;
constexpr auto kNoDescriptorPause = std::chrono::milliseconds(200);

Json refusal(std::string_view message) { return {{"event", "refused"}, {"message", message}}; }

}  // namespace

Server::Listener::Listener(int socket, Shared& shared) : shared_(shared), socket_(socket) {
  const SignalsBlocked blocked;
  thread_ = std::thread([this] { run(); });
}

Server::Listener::~Listener() {
  shared_.wake();
  thread_.join();
  for (const Connection& connection : connections_) ::close(connection.fd);
  ::close(socket_);
  if (shared_.options.tcp_socket >= 0) ::close(shared_.options.tcp_socket);
}

int Server::Listener::timeout() const {
  std::optional<Clock::time_point> next = no_accept_until_;
  const auto sooner = [&](Clock::time_point time) {
    if (!next || time < *next) next = time;
  };
  for (const Connection& connection : connections_) {
    if (!connection.open) sooner(connection.since + shared_.options.limits.handshake);
    if (!connection.frames.empty()) {
      sooner(connection.progressed + shared_.options.limits.stalled);
    }
  }
  if (!next) return -1;
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(*next - Clock::now());
  return static_cast<int>(std::max<int64_t>(left.count() + 1, 0));
}

void Server::Listener::run() {
  std::vector<pollfd> ready;
  while (!shared_.ending) {
    ready.clear();
    const bool accepts = !no_accept_until_ || Clock::now() >= *no_accept_until_;
    if (accepts) no_accept_until_.reset();
    ready.push_back({shared_.wake_fd, POLLIN, 0});
    ready.push_back({accepts ? socket_ : -1, POLLIN, 0});
    ready.push_back({accepts ? shared_.options.tcp_socket : -1, POLLIN, 0});
    for (const Connection& connection : connections_) {
      short wanted = connection.reads ? POLLIN : 0;
      if (!connection.frames.empty()) wanted |= POLLOUT;
      ready.push_back({connection.fd, wanted, 0});
    }
    if (::poll(ready.data(), ready.size(), timeout()) < 0) {
      // After an error other than EINTR, for example ENOMEM, poll() is called again after a pause.
      if (errno != EINTR) std::this_thread::sleep_for(kNoDescriptorPause);
      continue;
    }
    if (ready[0].revents != 0) {
      uint64_t ignored = 0;
      if (::read(shared_.wake_fd, &ignored, sizeof ignored) < 0) {
        // The error is ignored. It means only that the eventfd's counter was read already.
      }
    }
    size_t i = 3;
    for (Connection& connection : connections_) {
      const short came = ready[i++].revents;
      if ((came & (POLLERR | POLLHUP | POLLNVAL)) != 0 && (came & POLLIN) == 0) {
        connection.closing = true;
      } else if ((came & POLLIN) != 0) {
        read_from(connection);
      }
      if (!connection.closing) write_to(connection);
      // Writing may have made room in the client's output queue. Then requests that were received
      // before can be handled.
      if (!connection.reads) handle_frames(connection);
      judge(connection);
    }
    close_marked();
    if (ready[1].revents != 0) accept_all(socket_, /*remote=*/false);
    if (ready[2].revents != 0) accept_all(shared_.options.tcp_socket, /*remote=*/true);
  }
}

void Server::Listener::accept_all(int socket, bool remote) {
  for (;;) {
    const int fd = ::accept4(socket, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0) {
      const bool exhausted =
          errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS;
      if (exhausted) no_accept_until_ = Clock::now() + kNoDescriptorPause;
      return;
    }
    ucred peer = {};
    socklen_t size = sizeof peer;
    const bool admitted = remote ? shared_.options.token.has_value()
                                 : ::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 &&
                                       shared_.options.admits(peer.uid);
    if (!admitted) {
      ::close(fd);
      continue;
    }
    make_room(remote);
    Connection& connection = connections_.emplace_back();
    connection.fd = fd;
    connection.remote = remote;
    connection.since = connection.progressed = Clock::now();
    connection.who.number = ++last_number_;
    if (remote) {
      tune_tcp(fd);
      connection.who.from = peer_of(fd);
    }
    connection.who.pid = peer.pid;
    connection.who.uid = peer.uid;
  }
}

// Makes room for a new connection: if limits.half_open connections have not completed their
// handshake, closes the oldest of them. Idle connections thus do not block new connections. Counts
// TCP and Unix connections separately, so TCP connections do not block Unix connections.
void Server::Listener::make_room(bool remote) {
  const auto half_open = [&](const Connection& one) { return !one.open && one.remote == remote; };
  const auto count = std::count_if(connections_.begin(), connections_.end(), half_open);
  if (static_cast<size_t>(count) < shared_.options.limits.half_open) return;
  std::find_if(connections_.begin(), connections_.end(), half_open)->closing = true;
  close_marked();
}

void Server::Listener::read_from(Connection& connection) {
  std::array<char, kReadAtOnce> bytes;
  const ssize_t count = ::recv(connection.fd, bytes.data(), bytes.size(), 0);
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (count <= 0) {
    connection.closing = true;
    return;
  }
  if (!connection.reader.add({bytes.data(), static_cast<size_t>(count)})) {
    connection.closing = true;
    return;
  }
  handle_frames(connection);
}

bool Server::Listener::handle_frames(Connection& connection) {
  const ServerLimits& limits = shared_.options.limits;
  while (!connection.closing) {
    if (connection.open) {
      const std::lock_guard lock(shared_.mutex);
      const Outlet& outlet = shared_.outlets.at(connection.who.number);
      connection.reads = outlet.queued < limits.queued && outlet.bytes <= limits.output_bytes;
    }
    if (!connection.reads) return false;
    const auto text = connection.reader.next();
    if (!text) {
      // Closes the connection if the length of the next frame is invalid. The reader can check this
      // length only after next() has returned all earlier frames.
      connection.closing = !connection.reader.add({});
      return true;
    }
    if (connection.open) {
      handle(connection, *text);
    } else if (connection.challenged) {
      check_proof(connection, *text);
    } else {
      say_hello(connection, *text);
    }
  }
  return false;
}

void Server::Listener::say_hello(Connection& connection, const std::string& text) {
  auto hello = parse_message(text);
  if (!hello) {
    connection.closing = true;
    return;
  }
  const auto protocol = hello->find("protocol");
  const bool same = protocol != hello->end() && protocol->is_number_integer() &&
                    protocol->get<int64_t>() == kProtocol;
  connection.who.hello = *std::move(hello);
  if (!same) {
    return refuse(connection,
                  "the job uses another version of the protocol: attach with the am-repl that was "
                  "built together with the job's am-run");
  }
  if (connection.remote) return challenge(connection);
  welcome(connection);
}

void Server::Listener::refuse(Connection& connection, std::string_view message) {
  const std::string frame = to_frame(dump_json(refusal(message), -1));
  ::send(connection.fd, frame.data(), frame.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  connection.closing = true;
}

// Starts the authentication over TCP. The job is the first to prove that it knows the token, so a
// client never sends its own proof to any other server.
void Server::Listener::challenge(Connection& connection) {
  Nonces nonces{text_in(connection.who.hello, "nonce"), draw_nonce()};
  if (!is_nonce(nonces.client)) {
    return refuse(connection,
                  "a client over TCP must prove that it knows the token of the job: use am-repl "
                  "--token FILE");
  }
  const Json event = {{"event", "challenge"},
                      {"nonce", nonces.job},
                      {"proof", shared_.options.token->proof("job", nonces)}};
  connection.challenged = std::move(nonces);
  const std::string frame = to_frame(dump_json(event, -1));
  const ssize_t sent =
      ::send(connection.fd, frame.data(), frame.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  connection.closing = sent != static_cast<ssize_t>(frame.size());
}

void Server::Listener::check_proof(Connection& connection, const std::string& text) {
  const auto message = parse_message(text);
  const std::string proof = message ? text_in(*message, "proof") : std::string();
  if (!shared_.options.token->proves("client", *connection.challenged, proof)) {
    return refuse(connection, "the client does not have the token of this job");
  }
  welcome(connection);
}

void Server::Listener::welcome(Connection& connection) {
  const std::string words = to_frame(dump_json(shared_.options.welcome(connection.who), -1));
  std::unique_lock lock(shared_.mutex);
  if (shared_.outlets.size() >= shared_.options.limits.clients) {
    lock.unlock();
    return refuse(connection, "too many clients are attached to this job");
  }
  connection.open = true;
  Outlet& outlet = shared_.outlets[connection.who.number];
  outlet.who = connection.who;
  outlet.bytes = words.size();
  outlet.frames.push_back(words);
}

void Server::Listener::handle(Connection& connection, const std::string& text) {
  auto body = parse_message(text);
  if (!body) {
    connection.closing = true;
    return;
  }
  const auto id = body->find("id");
  if (id == body->end() || !id->is_number_integer()) {
    connection.closing = true;
    return;
  }
  Request request{connection.who.number, id->get<int64_t>(), *std::move(body)};
  const auto& at_once = shared_.options.at_once;
  if (at_once && at_once(connection.who, request)) return;
  const std::lock_guard lock(shared_.mutex);
  ++shared_.outlets.at(connection.who.number).queued;
  shared_.queue.push_back(std::move(request));
  ++shared_.waiting;
  shared_.came.notify_one();
}

bool Server::Listener::take_frames(Connection& connection) {
  if (!connection.open) return false;
  const std::lock_guard lock(shared_.mutex);
  Outlet& outlet = shared_.outlets.at(connection.who.number);
  if (outlet.overrun) connection.closing = true;
  if (outlet.frames.empty() && outlet.dropped > 0) {
    const Json event = {{"event", "dropped"}, {"count", std::exchange(outlet.dropped, 0)}};
    outlet.frames.push_back(to_frame(dump_json(event, -1)));
    outlet.bytes += outlet.frames.back().size();
  }
  if (outlet.frames.empty()) return false;
  connection.frames.swap(outlet.frames);
  return true;
}

void Server::Listener::write_to(Connection& connection) {
  while (!connection.closing) {
    if (connection.frames.empty()) {
      if (!take_frames(connection)) return;
      connection.progressed = Clock::now();
      continue;
    }
    const std::string& frame = connection.frames.front();
    const ssize_t count = ::send(connection.fd, frame.data() + connection.written,
                                 frame.size() - connection.written, MSG_NOSIGNAL);
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (count < 0) {
      connection.closing = true;
      return;
    }
    connection.progressed = Clock::now();
    connection.written += static_cast<size_t>(count);
    if (connection.written == frame.size()) {
      connection.frames.pop_front();
      connection.written = 0;
    }
    const std::lock_guard lock(shared_.mutex);
    shared_.outlets.at(connection.who.number).bytes -= static_cast<size_t>(count);
    shared_.sent.notify_all();
  }
}

void Server::Listener::judge(Connection& connection) {
  const ServerLimits& limits = shared_.options.limits;
  const auto now = Clock::now();
  if (!connection.open && now - connection.since >= limits.handshake) connection.closing = true;
  const bool stalled = !connection.frames.empty() && now - connection.progressed >= limits.stalled;
  if (stalled) connection.closing = true;
}

void Server::Listener::close_marked() {
  for (auto one = connections_.begin(); one != connections_.end();) {
    if (!one->closing) {
      ++one;
      continue;
    }
    ::close(one->fd);
    if (one->open) {
      {
        const std::lock_guard lock(shared_.mutex);
        shared_.outlets.erase(one->who.number);
        const auto erased = std::erase_if(shared_.queue, [&](const Request& request) {
          return request.client == one->who.number;
        });
        shared_.waiting -= static_cast<int64_t>(erased);
        shared_.sent.notify_all();
      }
      if (shared_.options.gone) shared_.options.gone(one->who.number);
    }
    one = connections_.erase(one);
  }
}

}  // namespace am::control
