// TCP sockets between a job and remote clients. token.h authenticates the two ends.
#pragma once

#include <chrono>
#include <string>
#include <string_view>

namespace am::control {

struct TcpAddress {
  std::string host = "127.0.0.1";
  int port = 0;  // for a listening socket, 0 selects any free port

  bool is_loopback() const;
  // Returns the address as text, for example "node7:7000" or "[::1]:7000".
  std::string text() const;
};

// Parses an address, for example "7000", "node7:7000", "0.0.0.0:7000" or "[::1]:7000". A port alone
// means 127.0.0.1, the loopback address. Throws Error(kUsage) for an invalid address.
TcpAddress parse_tcp(std::string_view text);

// Returns a non-blocking socket that listens at `address`. Sets the port in `address` to the actual
// port. If the socket listens on all interfaces, also sets the host in `address` to this machine's
// name. Throws Error(kIo) if no socket can listen there.
int listen_tcp(TcpAddress& address);
// Connects to `address` and returns the socket, which is blocking. Waits up to `patience` for each
// IP address of the host. Throws Error(kRuntime) if no connection succeeds.
int connect_tcp(const TcpAddress& address, std::chrono::milliseconds patience);
// Configures a socket to send small messages immediately (TCP_NODELAY) and to detect a vanished
// peer (keep-alive).
void tune_tcp(int fd);
// Returns the address of the peer of a TCP connection, for example "10.1.2.3:50412"; "somewhere" if
// the connection is closed.
std::string peer_of(int fd);

}  // namespace am::control
