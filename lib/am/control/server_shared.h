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

// Queued output of one client, and the number of its queued requests.
struct Outlet {
  ClientInfo who;
  std::deque<std::string> frames;
  size_t bytes = 0;     // bytes not yet sent: in `frames`, and in the listener's Connection::frames
  int64_t dropped = 0;  // number of dropped events that no "dropped" event has reported yet
  size_t queued = 0;    // number of this client's requests in Shared::queue
  // Whether the client must be disconnected because it does not read its output.
  bool overrun = false;
};

struct Server::Shared {
  ServerOptions options;
  // Eventfd that wakes the server's thread when there is new output, when the request queue has
  // room again, or when the server ends.
  int wake_fd = -1;
  std::atomic<int64_t> waiting{0};
  std::atomic<bool> ending{false};

  std::mutex mutex;  // held only briefly, never during socket operations
  std::condition_variable came;
  std::condition_variable sent;
  std::map<uint64_t, Outlet> outlets;
  std::deque<Request> queue;

  void wake() const;
};

}  // namespace am::control
