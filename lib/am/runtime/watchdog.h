// Threads in each rank that publish the rank's state and, if a collective does not end, find out
// which ranks have not arrived at it.
//
//   Watchdog watchdog(world, {.on_stall = [](const CollectiveError& error) {
//     std::cerr << error.what() << std::endl;
//     _exit(1);
//   }});
//
// The watchdog writes the rank's state to the job's store, over a separate connection. While a
// collective is late, that is, past half of its timeout, two ranks of its group watch the states of
// the other ranks. When the collective fails or times out, one rank publishes a verdict for all
// (inquiry.h), and the error names the missing ranks (CollectiveError::missing). Gloo ends a
// collective at its timeout. If a collective does not end, for example because a GPU kernel spins
// or a wake-up is lost, a thread of the watchdog calls on_stall once, when `grace` has passed after
// the timeout.
//
// One thread waits for the store's answers, and another thread checks for timeouts. A store server
// that has stopped therefore cannot hide a stall. A world of one rank has no watchdog threads.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <thread>

#include "am/runtime/collective_error.h"
#include "am/runtime/world.h"

namespace am::runtime {

struct WatchdogOptions {
  // Time between two publications of the state; 0: the result of launch::state_interval.
  std::chrono::milliseconds interval{0};
  // Time from a collective's timeout to the call of on_stall.
  std::chrono::milliseconds grace = std::chrono::seconds(2);
  std::function<void(const CollectiveError& error)> on_stall;
};

class Watchdog {
 public:
  // Throws Error(kPeer) if a second connection to the store cannot be opened within the world's
  // timeout.
  explicit Watchdog(const World& world, WatchdogOptions options = {});
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;
  // Publishes the last state. If the store does not answer, gives up after a few seconds. After the
  // destructor has returned, on_stall is not running and is not called again.
  ~Watchdog();

  // Publishes the state now. Call it on a failed rank that is about to exit.
  void publish();

 private:
  struct Shared;
  std::shared_ptr<Shared> shared_;
  std::thread judge_;  // thread that calls on_stall
};

}  // namespace am::runtime
