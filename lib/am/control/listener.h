// The server's thread: accepts, reads, writes. Private to server.cpp.
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
  // shared.ending is set by now.
  ~Listener();

 private:
  using Clock = std::chrono::steady_clock;

  struct Connection {
    int fd = -1;
    ClientInfo who;
    bool open = false;    // it has said hello, and may
    bool remote = false;  // over TCP
    std::optional<Nonces> challenged;
    bool closing = false;
    Clock::time_point since;       // it connected
    Clock::time_point progressed;  // a byte was written last
    FrameReader reader{kLargestToJob, FrameReader::Begins::kWithMagic};
    std::deque<std::string> frames;  // taken from its outlet
    size_t written = 0;              // of the first of them
    bool reads = true;               // its requests and its output leave room
  };

  void run();
  int timeout() const;
  void accept_all(int socket, bool remote);
  void make_room(bool remote);
  void read_from(Connection& connection);
  // False: nothing more is taken from it now.
  bool handle_frames(Connection& connection);
  void say_hello(Connection& connection, const std::string& text);
  void challenge(Connection& connection);
  void check_proof(Connection& connection, const std::string& text);
  void refuse(Connection& connection, std::string_view message);
  void welcome(Connection& connection);
  void handle(Connection& connection, const std::string& text);
  // Takes what waits and writes what the socket takes.
  void write_to(Connection& connection);
  bool take_frames(Connection& connection);
  void judge(Connection& connection);
  void close_marked();

  Shared& shared_;
  int socket_;
  uint64_t last_number_ = 0;
  std::optional<Clock::time_point> no_accept_until_;  // there are no descriptors left
  std::list<Connection> connections_;
  std::thread thread_;
};

}  // namespace am::control
