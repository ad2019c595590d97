// The threads through which ranks answer while their training threads cannot: one in each rank, and
// on rank 0 one more that asks.
//
// Note [Questions through the store]: the store through which the ranks met (runtime/store.h) is
// reached by all of them, on all machines, and needs no port, no password and no connection beside
// the job's own. Rank 0 puts a question under the next number; every other rank's thread waits for
// that number at the store's server, which costs nothing while nobody asks, and puts its answer
// beside it. Who has not answered when time is up is stopped, dead or unreachable; the rank's
// watchdog published what it did last.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "am/base/json.h"
#include "am/live/rank_self.h"
#include "am/runtime/world.h"

namespace am::live {

// A rank that said nothing.
struct Silent {
  std::string process;  // "stopped", "ended", ..., where its machine is this one; else empty
  std::optional<Json> last_state;  // what its watchdog published
};

struct Answers {
  std::map<int64_t, Json> said;
  std::map<int64_t, Silent> silent;
};

class Helpers {
 public:
  // How long ranks have to answer: with what comes on top, a rank that hangs is named within 2 s.
  static constexpr std::chrono::milliseconds kPatience{1000};

  Helpers(const runtime::World& world, std::shared_ptr<RankSelf> self);
  Helpers(const Helpers&) = delete;
  Helpers& operator=(const Helpers&) = delete;
  // The threads end soon after; what they do then touches nothing of the caller's.
  ~Helpers();

  // On rank 0, from any thread: has `use` called with every rank's answer, or of rank `only`, on
  // the asking thread. False: too many questions wait.
  bool ask(const std::string& what, std::optional<int64_t> only,
           std::function<void(const Answers&)> use);
  // No `use` runs after this.
  void close();

 private:
  struct Shared;
  std::shared_ptr<Shared> shared_;
};

}  // namespace am::live
