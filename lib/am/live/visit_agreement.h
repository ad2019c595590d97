// Agrees with the other ranks at which step all of them visit (run the commands of clients), in a
// job whose steps exchange no message of automesh.
//
//   VisitAgreement agreement;
//   const bool visits = agreement.arrive(steps) && agreement.decided();   // training thread
//   agreement.propose(steps + 2);         // another thread: rank 0 proposes a step
//   agreement.decide(steps + 2, true);    // another thread: rank 0 has the answers of all ranks
//
// Note [Visits of programs]: ranks of a program may be some steps apart, and none of them may stop
// before a collective that another rank waits in. Rank 0 therefore proposes a later step. A rank
// accepts if its training thread has not reached this step; the thread then waits at this step for
// rank 0's decision. If all ranks accept, all visit at this step. Otherwise all continue, and rank
// 0 proposes a step that lies further ahead. Threads that do not train answer (rank_agents.h), so
// the answers need not wait until a step ends. While nothing is proposed, arrive() costs a store
// and a load.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>

namespace am::live {

class VisitAgreement {
 public:
  // Returns whether this rank may have to visit after `steps` finished steps: the caller must then
  // call decided() before it continues. Never waits. Runs on the training thread.
  bool arrive(int64_t steps);
  // Waits for the decision on a proposal of the current step, if there is one, and returns whether
  // this rank must visit. Runs on the training thread.
  bool decided();
  // Sets the next step at which this rank visits without a proposal; 0: none. All ranks must set
  // the same step. Runs on the training thread.
  void plan(int64_t steps) { planned_ = steps; }
  bool is_planned(int64_t steps) const { return steps == planned_; }
  // Returns the number of finished steps at the last arrive().
  int64_t steps() const { return steps_; }

  // Returns whether the training thread will wait at `steps`. False if the thread has reached that
  // step already, if a visit that was decided earlier is still to come, and after close(). Runs on
  // any thread, as do the next functions.
  bool propose(int64_t steps);
  // Ends the wait at `steps`: the rank visits, or it continues.
  void decide(int64_t steps, bool visit);
  // Ends all waits, so that the rank continues, and refuses later proposals.
  void close();

 private:
  int64_t planned_ = 0;
  std::atomic<int64_t> steps_{0};
  std::atomic<int64_t> proposed_{0};  // 0: nothing is proposed
  std::mutex mutex_;                  // guards the next members
  std::condition_variable changed_;
  std::optional<bool> decision_;  // decision on proposed_
  bool closed_ = false;
};

}  // namespace am::live
