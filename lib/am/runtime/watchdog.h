// Threads in each rank that publish what the rank is doing and, when a collective does not end,
// find out which rank did not come.
//
//   Watchdog watchdog(world, {.on_stall = [](const CollectiveError& error) { ... _exit(1); }});
//
// The rank's state goes to the job's store, over a connection of the watchdog's own; while a
// collective is late the watchdog asks for the states of those it waits for. The error of a
// collective that fails or runs out of time then names them (CollectiveError::missing). Gloo ends a
// late collective by itself; where nothing does (a GPU kernel that spins, a lost wake-up), on_stall
// is called, once, from a thread of the watchdog's, `grace` after the timeout.
//
// The store's answers are awaited in one thread and time is watched in another, so a store whose
// server is stopped cannot hide a stall. Nothing runs for a world of one rank.
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
  // Between two publications; 0: a twentieth of the timeout, from 0.1 s to 2 s.
  std::chrono::milliseconds interval{0};
  // How much longer than its timeout a collective may last before on_stall is called.
  std::chrono::milliseconds grace = std::chrono::seconds(2);
  std::function<void(const CollectiveError& error)> on_stall;
};

class Watchdog {
 public:
  explicit Watchdog(const World& world, WatchdogOptions options = {});
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;
  // Publishes the last state. Does not wait for a store that does not answer; on_stall is not
  // called any more, and has returned where it was being called.
  ~Watchdog();

  // Publishes the state now: before a rank that failed goes away.
  void publish();

 private:
  struct Shared;
  std::shared_ptr<Shared> shared_;
  std::thread judge_;  // calls on_stall
};

}  // namespace am::runtime
