// What the server's thread and the others share. Private to server.cpp and listener.cpp.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <string>

#include "am/control/server.h"

namespace am::control {

// What waits to be sent to a client, until it is written.
struct Outlet {
  ClientInfo who;
  std::deque<std::string> frames;
  size_t bytes = 0;      // of these, and of what the listener has taken and not yet written
  int64_t dropped = 0;   // events, since the last that was sent
  size_t queued = 0;     // requests
  bool overrun = false;  // it is to be left: it does not read what it asked for
};

struct Server::Shared {
  ServerOptions options;
  int wake_fd = -1;  // eventfd: the listener has something to send, or is to end
  std::atomic<int64_t> waiting{0};
  std::atomic<bool> ending{false};

  std::mutex mutex;  // held for a few instructions at a time, and never around a system call
  std::condition_variable came;
  std::condition_variable sent;
  std::map<uint64_t, Outlet> outlets;
  std::deque<Request> queue;

  void wake() const;
};

}  // namespace am::control
