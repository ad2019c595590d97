// State shared by the server's thread and the threads that call Server. Private to server.cpp and
// listener.cpp.
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

// Output that waits to be sent to a client.
struct Outlet {
  ClientInfo who;
  std::deque<std::string> frames;
  size_t bytes = 0;      // queued frames, and those taken but not yet written
  int64_t dropped = 0;   // events dropped since the last one sent
  size_t queued = 0;     // requests
  bool overrun = false;  // must be disconnected, because it does not read its output
};

struct Server::Shared {
  ServerOptions options;
  int wake_fd = -1;  // eventfd that wakes the listener: output waits, a queue has room, or the end
  std::atomic<int64_t> waiting{0};
  std::atomic<bool> ending{false};

  std::mutex mutex;  // held briefly, and never during a system call
  std::condition_variable came;
  std::condition_variable sent;
  std::map<uint64_t, Outlet> outlets;
  std::deque<Request> queue;

  void wake() const;
};

}  // namespace am::control
