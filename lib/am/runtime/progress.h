// The rank's current state, for diagnosis of a job that hangs: its step, the collective for which
// it waits, and the number of collectives that it has issued in each communicator.
//
// Groups update the state, in well under a microsecond per collective. The watchdog (watchdog.h)
// publishes the state, and this rank's errors quote it.
//
//   world.progress().set_step(12);
//   world.progress().last_collective();       // "all_gather dp_shard_cp #1042"
#pragma once

#include <c10/core/Device.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <torch/csrc/distributed/c10d/Work.hpp>
#include <vector>

#include "am/launch/cause/rank_state.h"

namespace am::runtime {

// Identity of a communicator. Collectives of different ranks are compared by `name` and sequence
// number; error messages list `ranks`.
struct CommunicatorId {
  // Unique in the world, and equal on all ranks of the communicator; for example "mesh/1/tp/4".
  std::string name;
  std::vector<int64_t> ranks;
  std::chrono::milliseconds timeout{0};  // time limit of one collective; 0: no limit
};

// One collective: the `sequence`-th of its communicator, counted from 1.
struct Collective {
  const char* op = "";  // operation, for example "all_reduce"
  std::string group;    // the group's name in messages, for example "tp"
  std::shared_ptr<const CommunicatorId> communicator;
  uint64_t sequence = 0;

  // Returns the collective's name, for example "all_reduce tp #12".
  std::string name() const;
  // Returns the name and the ranks, for example "all_reduce tp #12 (ranks 0-3)"; cuts long lists.
  std::string describe() const;
};

using launch::RankState;

// Records in `state` that the rank waits in `collective`, and thus has issued it.
void set_waiting(RankState& state, const Collective& collective, double seconds);

class Progress {
 public:
  using Clock = std::chrono::steady_clock;

  struct Waiting {
    Collective collective;
    Clock::time_point since;
  };

  void set_step(int64_t step);
  std::optional<int64_t> step() const;
  // Records the message of this rank's failure in the state, so that other ranks can show it.
  void set_failed(const std::string& message);

  // Records that this rank issued a collective, i.e. arrived at it.
  void issued(const Collective& collective);
  // Record the start and the end of this rank's wait for a collective.
  void wait_begins(const Collective& collective);
  void wait_ends();
  // Adds time for which this rank was blocked in the call that issued a collective.
  void add_waited(Clock::duration time);
  // Returns the total seconds for which this rank's host was blocked by collectives.
  double waited_seconds() const;
  // Records a collective on `device` that does not block the host (NCCL's): the rank counts as
  // waiting for it until `observer` is completed. See Engine::observer.
  void track(const Collective& collective, c10::intrusive_ptr<c10d::Work> observer,
             c10::Device device);

  // Returns the collective for which this rank has waited longest; nothing if it does not wait.
  std::optional<Waiting> waiting();
  // Returns the name of the collective between wait_begins() and wait_ends() or, if there is none,
  // of the last collective that this rank issued. Empty if this rank has issued none.
  std::string last_collective() const;
  // Returns the state to publish for this rank. Each call increments the state's number,
  // RankState::beat.
  RankState state(int64_t rank);

 private:
  struct Tracked {
    Waiting waiting;
    c10::intrusive_ptr<c10d::Work> observer;
    c10::Device device;
  };
  void forget_completed();
  std::optional<Waiting> waiting_locked() const;

  mutable std::mutex mutex_;
  std::optional<int64_t> step_;
  std::string failed_;
  std::optional<Waiting> waiting_;
  Clock::duration waited_{0};
  std::vector<Tracked> tracked_;
  // When `tracked_` has this many entries, track() removes the completed collectives from it.
  size_t forget_at_ = 64;
  std::map<std::string, uint64_t> issued_;
  std::optional<Collective> last_;
  uint64_t beat_ = 0;
};

}  // namespace am::runtime
