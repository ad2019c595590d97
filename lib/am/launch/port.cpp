#include "am/launch/port.h"

#include <arpa/inet.h>
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

}  // namespace am::launch
