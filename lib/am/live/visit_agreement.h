// Lets all ranks agree on a step after which they visit, that is, run the commands of clients. Used
// in jobs whose training loop is not automesh's. In these jobs, automesh runs no collective during
// a step, so no collective can carry a rank's request for a visit.
//
//   VisitAgreement agreement;
//   const bool visits = agreement.arrive(steps) && agreement.decided();   // training thread
//   agreement.propose(steps + 2);         // another thread: rank 0 proposes a step
//   agreement.decide(steps + 2, true);    // another thread: rank 0 has the answers of all ranks
//
// Note [Visits of programs]: ranks of a program may be some steps apart. No rank may stop before a
// collective in which another rank waits. Rank 0 therefore proposes a later step. A rank accepts if
// its training thread has not reached this step. The thread then waits at this step for rank 0's
// decision. If all ranks accept, all visit at this step. Otherwise all continue, and rank 0
// proposes a step that lies further ahead. Threads that do not train send the answers
// (rank_agents.h), so answers need not wait until a step ends. While no step is proposed, arrive()
// costs one atomic store and one atomic load.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>

namespace am::live {

class VisitAgreement {
 public:
  // Returns whether this rank may have to visit after `steps` finished steps. If true, the caller
  // must call decided() before it continues. Never waits. Runs on the training thread.
  bool arrive(int64_t steps);
  // If the current step was proposed, waits for the decision. Returns whether this rank must visit.
  // Runs on the training thread.
  bool decided();
  // Sets the next step at which this rank visits without a proposal; 0: none. All ranks must set
  // the same step. Runs on the training thread.
  void plan(int64_t steps) { planned_ = steps; }
  bool is_planned(int64_t steps) const { return steps == planned_; }
  // Returns the number of finished steps at the last arrive().
  int64_t steps() const { return steps_; }

  // Proposes the step `steps`. Returns whether the training thread will wait at this step: false if
  // the thread has reached this step already, if the visit of an earlier decision is still to come,
  // and after close(). Runs on any thread, as do the next functions.
  bool propose(int64_t steps);
  // Decides on the proposal of `steps`, and ends the wait at this step. `visit`: whether this rank
  // visits at this step.
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
