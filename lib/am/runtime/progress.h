// What this rank is doing, for whoever asks when the job stands still: its step, the collective it
// waits in, and how many collectives it has issued in each communicator.
//
// Groups write it, at a cost of well under a microsecond a collective; the watchdog (watchdog.h)
// publishes it, and an error of this rank quotes it.
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

// Which communicator, for people and for comparing what ranks have issued.
struct CommunicatorId {
  std::string name;  // unique in the world and the same on all its ranks: "mesh/1/tp/4"
  std::vector<int64_t> ranks;
  std::chrono::milliseconds timeout{0};  // of one collective; 0: none
};

// One collective: the `sequence`-th, from 1, that its communicator was given.
struct Collective {
  const char* op = "";  // "all_reduce"
  std::string group;    // what the user calls it: "tp"
  std::shared_ptr<const CommunicatorId> communicator;
  uint64_t sequence = 0;

  // "all_reduce tp #12"
  std::string name() const;
  // "all_reduce tp #12 (ranks 0, 1, 2, 3)"; long lists are cut.
  std::string describe() const;
};

using launch::RankState;

// `state` waits in `collective`, and so has issued it.
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
  // For the ranks that ask why this one went away.
  void set_failed(const std::string& message);

  // A group issued a collective: it has arrived there.
  void issued(const Collective& collective);
  // The rank begins to wait, and has finished waiting, for a collective.
  void wait_begins(const Collective& collective);
  void wait_ends();
  // A collective on `device` whose end the host does not wait for (NCCL's): it counts as waited for
  // until `observer` is completed. See Engine::observer.
  void track(const Collective& collective, c10::intrusive_ptr<c10d::Work> observer,
             c10::Device device);

  // The collective that has been waited for longest.
  std::optional<Waiting> waiting();
  // The one that is waited for, else the last one issued; empty when there was none.
  std::string last_collective() const;
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
  std::vector<Tracked> tracked_;
  size_t forget_at_ = 64;  // tracked collectives
  std::map<std::string, uint64_t> issued_;
  std::optional<Collective> last_;
  uint64_t beat_ = 0;
};

}  // namespace am::runtime
