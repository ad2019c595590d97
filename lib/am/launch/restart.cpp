#include "am/launch/restart.h"

#include <chrono>
#include <thread>

#include "am/base/error.h"
#include "am/launch/node_board.h"

namespace am::launch {
namespace {

using Clock = std::chrono::steady_clock;

// Asks until there is an answer or the time is over.
template <typename Question>
auto ask(Question question, std::chrono::seconds limit) {
  const auto deadline = Clock::now() + limit;
  for (;;) {
    const auto answer = question();
    if (answer || Clock::now() >= deadline) return answer;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
}

NextAttempt decide(const JobResult& failed, const RestartPolicy& policy) {
  NextAttempt next;
  next.restart =
      failed.restarts < policy.max_restarts && worth_restarting(failed, policy.any_failure);
  if (next.restart && policy.newest_step) next.step = policy.newest_step();
  return next;
}

// Node 0 decides and tells; the others do as it says. Where it does not say, the job is over.
NextAttempt agree(const JobSpec& spec, const JobResult& failed, const RestartPolicy& policy) {
  if (spec.board == nullptr || spec.num_nodes == 1) return decide(failed, policy);
  if (!failed.board_error.empty() || policy.max_restarts == 0) return {};
  NodeBoard board(*spec.board, spec.run_id, failed.restarts, spec.node_rank, spec.num_nodes);
  try {
    if (spec.node_rank == 0) {
      const NextAttempt next = decide(failed, policy);
      board.decide(next);
      return next;
    }
    if (failed.killed && failed.ended_by_user) return {};  // the user waits for the end
    // Node 0 may still be waiting for a node that will never report.
    const auto stopping = static_cast<int64_t>(spec.settle_seconds + spec.grace_seconds) + 5;
    return ask([&] { return board.decision(); }, std::chrono::seconds(stopping))
        .value_or(NextAttempt{});
  } catch (const Error&) {
    return {};  // the board is lost
  }
}

// Node 0's launcher may hold the board: it goes last, but waits for nobody who is gone.
void leave(const JobSpec& spec, const JobResult& last) {
  constexpr auto kPatience = std::chrono::seconds(3);
  if (spec.board == nullptr || spec.num_nodes == 1 || !last.board_error.empty()) return;
  NodeBoard board(*spec.board, spec.run_id, last.restarts, spec.node_rank, spec.num_nodes);
  try {
    if (spec.node_rank != 0) return board.leave();
    if (last.killed && last.ended_by_user) return;
    const auto all_left = [&] {
      for (int64_t node = 1; node < spec.num_nodes; ++node) {
        if (!board.has_left(node)) return std::optional<bool>();
      }
      return std::optional<bool>(true);
    };
    ask(all_left, kPatience);
  } catch (const Error&) {
    // The board is lost: nobody is waiting.
  }
}

}  // namespace

bool worth_restarting(const JobResult& result, bool any_failure) {
  if (result.exit_status == 0 || result.ended_by_user || result.stop_signal != 0) return false;
  if (!result.silent_nodes.empty() || !result.board_error.empty()) return false;
  if (any_failure || !result.cause || result.cause->witness) return true;
  const RankExit& end = result.ranks[*result.cause->end];
  if (end.signal != 0) return true;
  if (!end.error) return end.exit_status != 2;
  const std::string& kind = end.error->kind;
  if (kind == "usage" || kind == "plan" || kind == "format") return false;
  return end.exit_status != 2 || end.error->step.has_value();
}

JobResult supervise_with_restarts(const JobSpec& spec, const RestartPolicy& policy,
                                  const JobCallbacks& callbacks) {
  JobSpec attempt = spec;
  attempt.max_restarts = policy.max_restarts;
  for (;;) {
    JobResult result = supervise(attempt, callbacks);
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
