#include "am/launch/supervise/local.h"

#include <poll.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <csignal>
#include <optional>
#include <set>
#include <thread>
#include <utility>

#include "am/base/error.h"
#include "am/launch/cause/first_cause.h"
#include "am/launch/cause/interpreter_stack.h"
#include "am/launch/environment/port.h"
#include "am/launch/nodes/peer_nodes.h"
#include "am/launch/supervise/rank_children.h"
#include "am/launch/supervise/signal_scope.h"
#include "am/launch/supervise/wall_time.h"

namespace am::launch {
namespace {

using Clock = std::chrono::steady_clock;

// Time between two checks for suspended ranks.
constexpr auto kLookInterval = std::chrono::seconds(1);
// Time in which interpreters write their stacks before the launcher stops the ranks.
constexpr auto kStackPatience = std::chrono::milliseconds(200);
constexpr int kStackLines = 400;  // number of last lines of a log that are searched for a stack

Clock::time_point after(double seconds) {
  return Clock::now() + std::chrono::duration_cast<Clock::duration>(
                            std::chrono::duration<double>(std::max(0.0, seconds)));
}

// Returns the signal that ended a rank, also if a shell or a handler turned the signal into exit
// status 128 + signal; 0 if no signal ended the rank.
int ending_signal(const RankExit& exit) {
  if (exit.signal != 0) return exit.signal;
  const int signal = exit.exit_status - 128;
  return signal > 0 && signal < NSIG ? signal : 0;
}

class Supervisor {
 public:
  Supervisor(const JobSpec& spec, const JobCallbacks& callbacks)
      : spec_(spec),
        callbacks_(callbacks),
        signals_({SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2, SIGCHLD}),
        children_(spec, callbacks.output) {
    if (spec.store != nullptr && spec.num_nodes > 1) peers_.emplace(spec);
  }

  JobResult run() {
    if (const auto port = master_port()) {
      children_.start(*port);
      announce({JobEventKind::kStarted, -1, 0});
    }
    while (children_.running() > 0 || children_.lingering() > 0) {
      wait();
      take_signals();
      judge();
      listen();
      check_deadlines();
      look_for_suspended();
    }
    children_.pump();
    if (peers_) hear_the_others();
    return result();
  }

 private:
  std::optional<int> master_port();
  void wait();
  void take_signals();
  void judge();
  void on_end(RankChild& child);
  void on_failure(const RankExit& exit);
  void on_user_signal(int signal);
  bool is_same_request(int signal) const;
  void listen();
  void check_deadlines();
  void look_for_suspended();
  void stop_ranks();
  void collect_stacks();
  void kill_all(int signal);
  void hear_the_others();
  NodeReport report() const;
  JobResult result();
  int exit_status(const JobResult& result) const;

  void announce(const JobEvent& event) const {
    if (callbacks_.event) callbacks_.event(event);
  }
  // Whether the ranks were asked to end and were not killed yet.
  bool ending() const { return (stop_signal_ != 0 || stopped_at_ > 0.0) && !killed_; }
  bool started() const { return !children_.all().empty(); }

  const JobSpec& spec_;
  const JobCallbacks& callbacks_;
  SignalScope signals_;
  RankChildren children_;
  std::optional<PeerNodes> peers_;
  int stop_signal_ = 0;  // the user's first signal
  Clock::time_point stop_signal_at_;
  bool killed_ = false;
  bool killed_by_user_ = false;
  bool wait_cut_ = false;  // the user's signal ended the wait for the other nodes' reports
  bool failed_ = false;
  // Wall-clock time at which the launcher stopped the ranks after a failure; 0: not yet.
  double stopped_at_ = 0.0;
  std::optional<Clock::time_point> settle_until_;
  std::optional<Clock::time_point> kill_at_;
  Clock::time_point next_look_ = Clock::now() + kLookInterval;
  std::set<int64_t> suspended_;       // ranks found suspended at the last check
  std::set<int64_t> told_suspended_;  // suspended ranks that were already announced
};

// Returns the port of the ranks' store: JobSpec::master_port or, if that is 0, a free port that
// node 0 chooses and publishes. Returns nothing if the job ends before the port is known.
std::optional<int> Supervisor::master_port() {
  if (spec_.master_port != 0) return spec_.master_port;
  if (!peers_) return free_port();
  return peers_->agree_on_port([this] {
    take_signals();
    return stop_signal_ != 0;
  });
}

// Sleeps until a signal arrives, rank 0 writes output, or the next deadline is reached.
void Supervisor::wait() {
  std::optional<Clock::time_point> deadline = kill_at_;
  const auto not_after = [&](Clock::time_point when) {
    if (!deadline || when < *deadline) deadline = when;
  };
  if (settle_until_) not_after(*settle_until_);
  if (children_.running() > 0 && !failed_ && !killed_) not_after(next_look_);
  if (peers_) not_after(peers_->next_look());
  if (children_.lingering() > 0) not_after(after(0.05));
  int timeout = -1;
  if (deadline) {
    const std::chrono::duration<double, std::milli> left = *deadline - Clock::now();
    timeout = static_cast<int>(std::clamp(std::ceil(left.count()), 0.0, 1e9));
  }
  // Once rank 0 has closed its output, output_fd() is -1, which poll ignores.
  std::array<pollfd, 2> fds = {pollfd{signals_.fd(), POLLIN, 0},
                               pollfd{children_.output_fd(), POLLIN, 0}};
  ::poll(fds.data(), fds.size(), timeout);
  if (fds[1].revents != 0) children_.pump();
}

void Supervisor::take_signals() {
  for (const int signal : signals_.take()) {
    if (signal != SIGCHLD) on_user_signal(signal);
  }
}

void Supervisor::judge() {
  for (RankChild* child : children_.reap(ending())) on_end(*child);
}

void Supervisor::on_end(RankChild& child) {
  RankExit& exit = child.exit;
  exit.tail = child.log.tail(spec_.tail_lines);  // a rank that left too early may be the cause
  if (exit.ok()) return;
  if (!exit.error && spec_.last_word)
    exit.last_word = spec_.last_word(exit.rank, spec_.restart_count);
  const int signal = ending_signal(exit);
  const bool by_our_signal = signal != 0 && child.sent[static_cast<size_t>(signal)];
  const bool told_to_end = stopped_at_ > 0.0 || killed_;
  // An error that the rank reported before the launcher stopped the ranks is not a consequence of
  // the stop.
  const bool own_error = exit.error && (stopped_at_ == 0.0 || was_before(*exit.error, stopped_at_));
  exit.stopped = (by_our_signal || told_to_end) && !own_error;
  if (own_error && by_our_signal) {  // the rank was already exiting when the signal arrived
    exit.signal = 0;
    exit.exit_status = exit.error->exit_status;
  }
  if (exit.stopped && spec_.stack_signal != 0) {
    exit.position = position_of(last_stack(child.log.tail(kStackLines)));
  }
  if (!exit.stopped) on_failure(exit);
}

void Supervisor::on_failure(const RankExit& exit) {
  if (!failed_) {
    announce({JobEventKind::kRankFailed, exit.rank, 0});
    for (RankChild* child : children_.suspended()) child->exit.suspended = true;
  }
  failed_ = true;
  if (stopped_at_ > 0.0) return;
  if (!may_be_consequence(exit)) {
    settle_until_ = Clock::now();  // check_deadlines() stops the other ranks
  } else if (!settle_until_) {
    settle_until_ = after(spec_.settle_seconds);
  }
}

void Supervisor::on_user_signal(int signal) {
  if (signal == SIGUSR1 || signal == SIGUSR2) {
    children_.signal(signal);
  } else if (stop_signal_ == 0) {
    stop_signal_ = signal;
    stop_signal_at_ = Clock::now();
    announce({JobEventKind::kStopping, -1, signal});
    children_.signal(SIGTERM);
    children_.signal(SIGCONT);
    if (spec_.stop_seconds > 0.0 && !kill_at_) kill_at_ = after(spec_.stop_seconds);
  } else if (!killed_ && !is_same_request(signal)) {
    kill_all(signal);
  }
}

// Returns whether a signal belongs to the user's first request. timeout(1) sends one request as two
// signals within microseconds: first to its child, then to its own process group. A second Ctrl-C
// is always a second request.
bool Supervisor::is_same_request(int signal) const {
  constexpr auto kSameRequest = std::chrono::seconds(1);
  const bool twice_ctrl_c = signal == SIGINT && stop_signal_ == SIGINT;
  return !twice_ctrl_c && Clock::now() - stop_signal_at_ < kSameRequest;
}

// Stops this node's ranks after a failure on another node, or after the loss of the store, which
// node 0's launcher serves.
void Supervisor::listen() {
  if (!peers_ || !peers_->failure_elsewhere()) return;
  if (stopped_at_ == 0.0 && children_.running() > 0) settle_until_ = Clock::now();
}

void Supervisor::check_deadlines() {
  if (settle_until_ && Clock::now() >= *settle_until_) stop_ranks();
  if (kill_at_ && Clock::now() >= *kill_at_) {
    kill_at_.reset();
    if (children_.running() > 0 || children_.lingering() > 0) kill_all(0);
  }
}

// Announces suspended ranks. All other ranks wait for a suspended rank, and without an announcement
// the user would notice only when a collective times out.
void Supervisor::look_for_suspended() {
  if (Clock::now() < next_look_ || failed_ || killed_) return;
  next_look_ = Clock::now() + kLookInterval;
  std::set<int64_t> now;
  for (const RankChild* child : children_.suspended()) {
    now.insert(child->exit.rank);
    // Announces a rank only if two checks in a row found it suspended: short stops are ignored.
    if (suspended_.contains(child->exit.rank) && told_suspended_.insert(child->exit.rank).second) {
      announce({JobEventKind::kRankSuspended, child->exit.rank, 0, child->pid});
    }
  }
  std::erase_if(told_suspended_, [&](int64_t rank) { return !now.contains(rank); });
  suspended_ = std::move(now);
}

void Supervisor::stop_ranks() {
  settle_until_.reset();
  stopped_at_ = wall_time();
  if (peers_) peers_->abort_all();
  // After the user's signal the ranks are saving, and a second SIGTERM would end them immediately.
  if (stop_signal_ == 0) {
    if (spec_.stack_signal != 0) collect_stacks();
    children_.signal(SIGTERM);
    kill_at_ = after(spec_.grace_seconds);
  }
  children_.signal(SIGCONT);
}

// Lets the interpreters of the running ranks write their stacks to the logs.
void Supervisor::collect_stacks() {
  children_.pump();  // shows the user rank 0's output before the stack; the stack is only logged
  if (!children_.signal_handlers(spec_.stack_signal)) return;
  children_.signal(SIGCONT);  // a suspended rank writes its stack now
  std::this_thread::sleep_for(kStackPatience);
  children_.pump(/*echoes=*/false);
}

void Supervisor::kill_all(int signal) {
  killed_ = true;
  killed_by_user_ = signal != 0;
  announce({JobEventKind::kKilling, -1, signal});
  children_.signal(SIGKILL);
}

// Publishes how this node's ranks ended. Node 0 then waits for the reports of all nodes whose
// launchers are alive, and the other nodes wait for node 0's verdict. The user's signal ends the
// wait. Does not wait if the user killed the ranks, or stopped the job before the ranks started.
void Supervisor::hear_the_others() {
  const bool user_waits = killed_by_user_ || (!started() && stop_signal_ != 0);
  if (failed_ || user_waits) peers_->abort_all();
  peers_->publish(report());
  if (user_waits) return;
  const auto signalled = [this] {
    std::array<pollfd, 1> fds = {pollfd{signals_.fd(), POLLIN, 0}};
    ::poll(fds.data(), fds.size(), 100);
    bool by_user = false;
    for (const int signal : signals_.take()) {
      if (signal == SIGCHLD || signal == SIGUSR1 || signal == SIGUSR2) continue;
      if (stop_signal_ != 0 && is_same_request(signal)) continue;
      by_user = true;
      if (stop_signal_ == 0) stop_signal_ = signal;
    }
    return by_user;
  };
  wait_cut_ = !peers_->collect(signalled);
  if (wait_cut_) peers_->publish(report());  // ended_by_user is now set, so no node restarts
}

NodeReport Supervisor::report() const {
  NodeReport report;
  report.ended_by_user = stop_signal_ != 0;
  for (const RankChild& child : children_.all()) report.ranks.push_back(child.exit);
  return report;
}

JobResult Supervisor::result() {
  JobResult result;
  result.stop_signal = stop_signal_;
  result.killed = killed_;
  result.killed_by_user = killed_by_user_;
  result.wait_cut = wait_cut_;
  result.node_rank = spec_.node_rank;
  result.num_nodes = spec_.num_nodes;
  result.restarts = spec_.restart_count;
  NodeReport own = report();
  result.ended_by_user = own.ended_by_user;
  result.ranks = std::move(own.ranks);
  if (peers_) {
    peers_->judge(result);
  } else {
    result.cause = find_cause(result.ranks, spec_.nproc);
  }
  result.exit_status = exit_status(result);
  return result;
}

int Supervisor::exit_status(const JobResult& result) const {
  if (result.cause && !result.cause->witness) {
    const RankExit* cause = &result.ranks[*result.cause->end];
    // If the rank that caused the failure was suspended or exited with status 0, the exit status of
    // another failed rank is used.
    for (const RankExit& rank : result.ranks) {
      if (!cause->suspended && !cause->ok()) break;
      if (!rank.ok() && !rank.stopped) cause = &rank;
    }
    return cause->signal != 0 || cause->suspended || cause->ok() ? 1 : cause->exit_status;
  }
  if (!result.failed_launchers.empty()) return result.failed_launchers[0].error.exit_status;
  const bool all_ok = std::all_of(result.ranks.begin(), result.ranks.end(),
                                  [](const RankExit& rank) { return rank.ok(); });
  const bool heard_all =
      result.silent_nodes.empty() && result.store_error.empty() && !result.wait_cut;
  return started() && all_ok && heard_all ? 0 : 1;
}

}  // namespace

JobResult supervise(const JobSpec& spec, const JobCallbacks& callbacks) {
  const auto require = [](bool condition, const char* message) {
    if (!condition) throw Error(ErrorKind::kUsage, message);
  };
  require(!spec.argv.empty(), "no program to start");
  require(spec.nproc >= 1, "the number of ranks on this machine must be at least 1");
  require(spec.num_nodes >= 1 && spec.node_rank >= 0 && spec.node_rank < spec.num_nodes,
          "the node's rank must be at least 0 and below the number of nodes");
  require(spec.master_port != 0 || spec.num_nodes == 1 || spec.store != nullptr,
          "several machines need a rendezvous address and port that all of them know");
  try {
    return Supervisor(spec, callbacks).run();
  } catch (const Error& error) {
    tell_failure(spec, error);
    throw;
  } catch (const std::exception& error) {
    tell_failure(spec, Error(ErrorKind::kInternal, error.what()));
    throw;
  }
}

}  // namespace am::launch
