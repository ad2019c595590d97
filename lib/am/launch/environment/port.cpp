#include "am/launch/environment/port.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "am/base/error.h"
#include "am/base/text.h"

namespace am::launch {

int free_port() {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  const bool found =
      fd >= 0 && ::bind(fd, generic, size) == 0 && ::getsockname(fd, generic, &size) == 0;
  const int reason = errno;
  if (fd >= 0) ::close(fd);
  if (!found) {
    throw Error(ErrorKind::kRuntime, cat("no free port on 127.0.0.1: ", std::strerror(reason)));
  }
  return ntohs(address.sin_port);
}

// Binds with SO_REUSEADDR, as servers do. A port with nothing but closed connections of a previous
// server (state TIME_WAIT) then counts as free.
std::string port_problem(int port) {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return std::strerror(errno);
  const int yes = 1;
  ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_ANY);
  const bool served = ::bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0 &&
                      ::listen(fd, 1) == 0;
  const int reason = errno;
  ::close(fd);
  return served ? "" : std::strerror(reason);
}

std::string address_problem(const std::string& host) {
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int status = ::getaddrinfo(host.c_str(), nullptr, &hints, &found);
  if (status != 0) return ::gai_strerror(status);
  ::freeaddrinfo(found);
  return "";
}

}  // namespace am::launch
