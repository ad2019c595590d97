// A control server in a temporary folder (Job), and raw connections over which a test can send
// arbitrary bytes to this server (Raw).
#pragma once

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "am/base/host.h"
#include "am/base/text.h"
#include "am/control/client.h"
#include "am/control/frame.h"
#include "am/control/place.h"
#include "am/control/server.h"

namespace am::control {

struct Scratch {
  std::filesystem::path path =
      std::filesystem::temp_directory_path() / cat("am-control-", unique_id());
  Scratch() { std::filesystem::create_directories(path); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  ~Scratch() { std::filesystem::remove_all(path); }
};

struct Job {
  Scratch folder;
  run_folder::RunFolder run{folder.path};
  ControlPlace place{run};
  Server server;

  explicit Job(ServerOptions options = {}) : server(place.take_socket(), std::move(options)) {
    server.start();
  }

  std::unique_ptr<Client> attach() {
    return std::make_unique<Client>(place.address(), Json::object(), std::chrono::seconds(5));
  }
};

class Raw {
 public:
  explicit Raw(const Job& job) : fd_(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    const std::string path = job.place.address().socket.string();
    std::memcpy(address.sun_path, path.data(), path.size());
    REQUIRE(::connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
  }
  Raw(Raw&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Raw& operator=(Raw&&) = delete;
  ~Raw() {
    if (fd_ >= 0) ::close(fd_);
  }

  // Sends the bytes. Returns the number of bytes sent before the peer closed the connection.
  size_t send(std::string_view bytes) const {
    size_t sent = 0;
    while (sent < bytes.size()) {
      const ssize_t count = ::send(fd_, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
      if (count <= 0) break;
      sent += static_cast<size_t>(count);
    }
    return sent;
  }
  // Returns whether the peer closes the connection within `patience`. said() then returns the bytes
  // that the peer has sent.
  bool is_closed(std::chrono::milliseconds patience) {
    const auto end = std::chrono::steady_clock::now() + patience;
    char bytes[4096];
    for (;;) {
      const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
          end - std::chrono::steady_clock::now());
      pollfd wait{fd_, POLLIN, 0};
      if (::poll(&wait, 1, static_cast<int>(std::max<int64_t>(left.count(), 0))) <= 0) return false;
      const ssize_t count = ::recv(fd_, bytes, sizeof bytes, 0);
      if (count <= 0) return true;
      said_.append(bytes, static_cast<size_t>(count));
    }
  }
  const std::string& said() const { return said_; }
  int fd() const { return fd_; }

 private:
  int fd_;
  std::string said_;
};

inline std::string hello_bytes() {
  return cat(kMagic, to_frame(cat("{\"protocol\":", kProtocol, "}")));
}

}  // namespace am::control
