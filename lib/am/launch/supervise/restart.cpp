#include "am/launch/supervise/restart.h"

#include <chrono>

#include "am/base/error.h"
#include "am/launch/nodes/ask.h"
#include "am/launch/nodes/leave.h"
#include "am/launch/nodes/node_rendezvous.h"
#include "am/launch/nodes/peer_nodes.h"
#include "am/launch/nodes/same_job.h"

namespace am::launch {
namespace {

NodeRendezvous rendezvous_of(const JobSpec& spec, int64_t attempt) {
  return {*spec.store, spec.run_id, attempt, spec.node_rank, spec.num_nodes};
}

NextAttempt decide(const JobResult& failed, const RestartPolicy& policy) {
  NextAttempt next;
  next.restart = failed.restarts < policy.max_restarts &&
                 worth_restarting(failed, policy.any_failure) &&
                 (!policy.possible || policy.possible());
  if (next.restart && policy.newest_step) next.step = policy.newest_step();
  return next;
}

// Publishes, for the next attempt, that this node does not take part. Called if this launcher has
// received the user's stop signal, because node 0 may already have decided to restart.
void refuse_next_attempt(const JobSpec& spec, int64_t attempt) {
  NodeReport report;
  report.ended_by_user = true;
  NodeRendezvous next = rendezvous_of(spec, attempt + 1);
  next.publish(report);
  next.raise_abort();
}

// Returns the decision about the next attempt: node 0 decides and publishes, other nodes wait for
// the decision. Without a decision the job is over.
NextAttempt agree(const JobSpec& spec, const JobResult& failed, const RestartPolicy& policy) {
  if (spec.store == nullptr || spec.num_nodes == 1) return decide(failed, policy);
  if (!failed.store_error.empty() || policy.max_restarts == 0) return {};
  try {
    NodeRendezvous rendezvous = rendezvous_of(spec, failed.restarts);
    if (spec.node_rank == 0) {
      const NextAttempt next = decide(failed, policy);
      rendezvous.decide(next);
      return next;
    }
    if (!failed.silent_nodes.empty() || !failed.failed_launchers.empty()) return {};
    if (failed.stop_signal != 0) {
      refuse_next_attempt(spec, failed.restarts);
      return {};
    }
    // Waits long, because node 0 may need time to find the newest checkpoint.
    constexpr auto kPatience = std::chrono::seconds(60);
    return ask([&] { return rendezvous.decision(); }, kPatience).value_or(NextAttempt{});
  } catch (const Error&) {
    return {};  // the store is lost
  }
}

// Leaves a job that could not start (leave.h): node 0 serves the store until the other nodes have
// read the report of the failure and left. Called if policy.before_start or supervise() throws.
void leave_refused(const JobSpec& spec) {
  JobResult none;
  none.restarts = spec.restart_count;
  leave(spec, none);
}

JobResult supervise_attempt(const JobSpec& spec, const JobCallbacks& callbacks) {
  try {
    return supervise(spec, callbacks);
  } catch (...) {
    leave_refused(spec);
    throw;
  }
}

void prepare(const JobSpec& spec, const RestartPolicy& policy) {
  if (!policy.before_start) return;
  try {
    policy.before_start();
  } catch (const Error& error) {
    tell_failure(spec, error);
    leave_refused(spec);
    throw;
  }
}

}  // namespace

bool worth_restarting(const JobResult& result, bool any_failure) {
  if (result.exit_status == 0 || result.ended_by_user || result.stop_signal != 0) return false;
  if (!result.silent_nodes.empty() || !result.failed_launchers.empty()) return false;
  if (!result.store_error.empty()) return false;
  if (any_failure || !result.cause || result.cause->witness) return true;
  const RankExit& end = result.ranks[*result.cause->end];
  if (end.signal != 0) return true;
  if (!end.error) return end.exit_status != 2;
  const std::string& kind = end.error->kind;
  for (const char* certain : {"usage", "plan", "format", "numeric"}) {
    if (kind == certain) return false;
  }
  return end.exit_status != 2 || end.error->step.has_value();
}

JobResult supervise_with_restarts(const JobSpec& spec, const RestartPolicy& policy,
                                  const JobCallbacks& callbacks) {
  check_same_job(spec, policy.max_restarts);
  prepare(spec, policy);
  JobSpec attempt = spec;
  attempt.max_restarts = policy.max_restarts;
  for (;;) {
    JobResult result = supervise_attempt(attempt, callbacks);
    const NextAttempt next =
        result.exit_status != 0 ? agree(attempt, result, policy) : NextAttempt{};
    if (!next.restart) {
      leave(attempt, result);
      return result;
    }
    const int64_t restart = attempt.restart_count + 1;
    if (policy.announce) policy.announce(result, restart, next.step);
    attempt = spec;
    attempt.max_restarts = policy.max_restarts;
    attempt.restart_count = restart;
    if (policy.resume) policy.resume(attempt, next.step);
  }
}

}  // namespace am::launch
