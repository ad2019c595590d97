// TCP for those who attach from elsewhere; who they are is token.h's to ask.
#pragma once

#include <chrono>
#include <string>
#include <string_view>

namespace am::control {

struct TcpAddress {
  std::string host = "127.0.0.1";
  int port = 0;  // to listen at: 0 is any that is free

  bool is_loopback() const;
  // "node7:7000", "[::1]:7000"
  std::string text() const;
};

// Of "7000", "node7:7000", "0.0.0.0:7000" or "[::1]:7000"; a port alone is this machine's own.
// Throws Error(kUsage).
TcpAddress parse_tcp(std::string_view text);

// A listening socket, not blocking. `address` gets the port, and where it was all of the machine's
// addresses, the machine's name. Throws Error(kIo).
int listen_tcp(TcpAddress& address);
// A connected socket. Throws Error(kRuntime).
int connect_tcp(const TcpAddress& address, std::chrono::milliseconds patience);
// Small messages leave at once, and an end that has vanished is noticed.
void tune_tcp(int fd);
// "10.1.2.3:50412", the other end.
std::string peer_of(int fd);

}  // namespace am::control
