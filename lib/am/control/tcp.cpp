#include "am/control/tcp.h"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <functional>
#include <memory>

#include "am/base/error.h"
#include "am/base/host.h"
#include "am/base/number.h"
#include "am/base/text.h"

namespace am::control {

namespace {

using namespace std::chrono_literals;

constexpr int kTcpBacklog = 64;
constexpr int kLargestPort = 65535;

[[noreturn]] void refuse_address(std::string_view text) {
  throw Error(ErrorKind::kUsage, cat("`", text, "` is not an address"),
              "[HOST:]PORT, for example 7000, node7:7000, 0.0.0.0:7000 or [::1]:7000");
}

// Resolves the address, and calls `use` with each result until a call returns a socket. Returns
// this socket. If all calls fail or the host cannot be resolved, returns -1 and sets `why` to the
// reason. `passive`: whether the socket is to listen.
int first_socket(const TcpAddress& address, bool passive,
                 const std::function<int(const addrinfo&)>& use, std::string& why) {
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV | (passive ? AI_PASSIVE : 0);
  addrinfo* found = nullptr;
  const int failed =
      ::getaddrinfo(address.host.c_str(), std::to_string(address.port).c_str(), &hints, &found);
  if (failed != 0) {
    why = ::gai_strerror(failed);
    return -1;
  }
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owned(found, &::freeaddrinfo);
  for (const addrinfo* each = found; each != nullptr; each = each->ai_next) {
    const int fd = use(*each);
    if (fd >= 0) return fd;
    why = std::strerror(errno);
  }
  return -1;
}

int close_failed(int fd) {
  const int reason = errno;
  if (fd >= 0) ::close(fd);
  errno = reason;
  return -1;
}

int listen_there(const addrinfo& at) {
  const int fd = ::socket(at.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, at.ai_protocol);
  const int on = 1;
  const bool listens = fd >= 0 && ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0 &&
                       ::bind(fd, at.ai_addr, at.ai_addrlen) == 0 && ::listen(fd, kTcpBacklog) == 0;
  return listens ? fd : close_failed(fd);
}

// Waits until the socket can be written. Signals do not cut the wait short.
bool wait_writable(int fd, std::chrono::milliseconds patience) {
  using Clock = std::chrono::steady_clock;
  const auto end = Clock::now() + patience;
  for (;;) {
    const auto left =
        std::max(std::chrono::ceil<std::chrono::milliseconds>(end - Clock::now()), 0ms);
    pollfd wait{fd, POLLOUT, 0};
    const int ready = ::poll(&wait, 1, static_cast<int>(left.count()));
    if (ready >= 0 || errno != EINTR) return ready == 1;
  }
}

int connect_there(const addrinfo& at, std::chrono::milliseconds patience) {
  const int fd = ::socket(at.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, at.ai_protocol);
  if (fd < 0) return -1;
  if (::connect(fd, at.ai_addr, at.ai_addrlen) != 0) {
    if (errno != EINPROGRESS) return close_failed(fd);
    if (!wait_writable(fd, patience)) {
      errno = ETIMEDOUT;
      return close_failed(fd);
    }
    int error = 0;
    socklen_t size = sizeof error;
    ::getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size);
    errno = error;
    if (error != 0) return close_failed(fd);
  }
  const int flags = ::fcntl(fd, F_GETFL);
  if (flags < 0 || ::fcntl(fd, F_SETFL, flags & ~O_NONBLOCK) != 0) return close_failed(fd);
  return fd;
}

struct NumericAddress {
  std::string host;
  int port = 0;
};

NumericAddress numeric(const sockaddr_storage& address, socklen_t size) {
  std::array<char, NI_MAXHOST> host = {};
  std::array<char, NI_MAXSERV> port = {};
  const int failed =
      ::getnameinfo(reinterpret_cast<const sockaddr*>(&address), size, host.data(), host.size(),
                    port.data(), port.size(), NI_NUMERICHOST | NI_NUMERICSERV);
  if (failed != 0) return {};
  return {host.data(), static_cast<int>(parse_integer(port.data()).value_or(0))};
}

}  // namespace

bool TcpAddress::is_loopback() const {
  return starts_with(host, "127.") || host == "::1" || host == "localhost";
}

std::string TcpAddress::text() const {
  return host.find(':') == std::string::npos ? cat(host, ":", port) : cat("[", host, "]:", port);
}

TcpAddress parse_tcp(std::string_view text) {
  TcpAddress address;
  const size_t colon = text.rfind(':');
  std::string_view port = text;
  if (colon != std::string_view::npos) {
    std::string_view host = text.substr(0, colon);
    port = text.substr(colon + 1);
    const bool brackets = starts_with(host, "[") && ends_with(host, "]");
    if (brackets) host = host.substr(1, host.size() - 2);
    const bool plain = host.find(':') == std::string_view::npos;
    if (host.empty() || (!brackets && !plain)) refuse_address(text);
    address.host = host;
  }
  const auto number = parse_integer(port);
  if (!number || *number < 0 || *number > kLargestPort) refuse_address(text);
  address.port = static_cast<int>(*number);
  return address;
}

int listen_tcp(TcpAddress& address) {
  std::string why;
  const int fd = first_socket(address, /*passive=*/true, listen_there, why);
  if (fd < 0) throw Error(ErrorKind::kIo, cat("cannot listen at ", address.text(), ": ", why));
  sockaddr_storage bound = {};
  socklen_t size = sizeof bound;
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&bound), &size) == 0) {
    const NumericAddress own = numeric(bound, size);
    address.port = own.port;
    if (own.host == "0.0.0.0" || own.host == "::") address.host = host_name();
  }
  return fd;
}

int connect_tcp(const TcpAddress& address, std::chrono::milliseconds patience) {
  std::string why;
  const int fd = first_socket(
      address, /*passive=*/false, [&](const addrinfo& at) { return connect_there(at, patience); },
      why);
  if (fd >= 0) {
    tune_tcp(fd);
    return fd;
  }
  throw Error(ErrorKind::kRuntime, cat("cannot attach to the job at ", address.text(), ": ", why));
}

void tune_tcp(int fd) {
  const int on = 1;
  const int seconds = 10;
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  ::setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
  ::setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &seconds, sizeof seconds);
  ::setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &seconds, sizeof seconds);
}

std::string peer_of(int fd) {
  sockaddr_storage peer = {};
  socklen_t size = sizeof peer;
  if (::getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &size) != 0) return "somewhere";
  const NumericAddress address = numeric(peer, size);
  return TcpAddress{address.host, address.port}.text();
}

}  // namespace am::control
