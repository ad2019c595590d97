// TCP sockets for remote clients; token.h authenticates them.
#pragma once

#include <chrono>
#include <string>
#include <string_view>

namespace am::control {

struct TcpAddress {
  std::string host = "127.0.0.1";
  int port = 0;  // for listening: 0 is any free port

  bool is_loopback() const;
  // "node7:7000", "[::1]:7000"
  std::string text() const;
};

// Parses "7000", "node7:7000", "0.0.0.0:7000" or "[::1]:7000"; a port alone means this machine's
// loopback. Throws Error(kUsage).
TcpAddress parse_tcp(std::string_view text);

// Returns a non-blocking listening socket. Sets the port in `address`, and if it listens on all
// addresses, the machine's name. Throws Error(kIo).
int listen_tcp(TcpAddress& address);
// Returns a connected socket. Throws Error(kRuntime).
int connect_tcp(const TcpAddress& address, std::chrono::milliseconds patience);
// Sends small messages immediately (TCP_NODELAY), and detects a vanished peer (keep-alive).
void tune_tcp(int fd);
// Returns the peer's address: "10.1.2.3:50412".
std::string peer_of(int fd);

}  // namespace am::control
