// The server's thread, which accepts connections, reads requests and writes output. Private to
// server.cpp and listener.cpp.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <list>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "am/control/frame.h"
#include "am/control/server_shared.h"

namespace am::control {

class Server::Listener {
 public:
  Listener(int socket, Shared& shared);
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;
  // Joins the thread and closes all sockets. The caller must have set shared.ending.
  ~Listener();

 private:
  using Clock = std::chrono::steady_clock;

  struct Connection {
    int fd = -1;
    ClientInfo who;
    bool open = false;    // whether the handshake is complete
    bool remote = false;  // whether the client is connected over TCP
    std::optional<Nonces> challenged;
    bool closing = false;
    Clock::time_point since;       // time at which the connection was accepted
    Clock::time_point progressed;  // last time at which output was sent or began to wait
    FrameReader reader{kLargestToJob, FrameReader::Begins::kWithMagic};
    std::deque<std::string> frames;  // output to write, moved here from the Outlet of the client
    size_t written = 0;              // number of bytes written of frames.front()
    bool reads = true;  // false while a queue (requests or output) of the client is full
  };

  void run();
  int timeout() const;
  void accept_all(int socket, bool remote);
  void make_room(bool remote);
  void read_from(Connection& connection);
  // Handles the complete frames that have been received. Returns false if it stops before the last
  // of them, because a queue of the client is full or the connection is to be closed.
  bool handle_frames(Connection& connection);
  void say_hello(Connection& connection, const std::string& text);
  void challenge(Connection& connection);
  void check_proof(Connection& connection, const std::string& text);
  void refuse(Connection& connection, std::string_view message);
  void welcome(Connection& connection);
  void handle(Connection& connection, const std::string& text);
  // Moves frames from the client's Outlet to `frames`, and writes as many bytes as the socket
  // accepts.
  void write_to(Connection& connection);
  bool take_frames(Connection& connection);
  // Marks the connection for closing if its handshake or its output has timed out.
  void judge(Connection& connection);
  void close_marked();

  Shared& shared_;
  int socket_;
  uint64_t last_number_ = 0;
  // Time until which no connection is accepted, because the process ran out of file descriptors or
  // memory.
  std::optional<Clock::time_point> no_accept_until_;
  std::list<Connection> connections_;
  std::thread thread_;
};

}  // namespace am::control
