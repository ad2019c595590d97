#include "am/inspect/rank_processes.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <thread>

#include "am/base/error.h"
#include "am/base/memory_file.h"
#include "am/base/signals_blocked.h"
#include "am/base/text.h"
#include "am/inspect/messages.h"
#include "am/launch/cause/first_cause.h"
#include "am/launch/environment/cores.h"
#include "am/launch/environment/environment.h"
#include "am/launch/environment/torchrun.h"
#include "am/launch/supervise/process.h"
#include "am/launch/supervise/process_state.h"

namespace am::inspect {
namespace {

// Time for ranks to exit by themselves before they are killed. After a failure, the ranks that exit
// in this time show which rank failed first. At the end of a session, ranks exit because their
// socket is closed.
constexpr auto kSettle = std::chrono::milliseconds(500);
constexpr int kPollMilliseconds = 100;
constexpr int kTailLines = 20;
// Time before a notice lists the ranks that have not answered, and time in which ranks must end an
// interrupted command.
constexpr auto kPatience = std::chrono::seconds(2);

using Clock = std::chrono::steady_clock;

// Returns a log for the output of one rank, stored in an in-memory file. Only the last lines of the
// log are shown. The kernel frees the in-memory file even if am-repl is killed.
launch::RankLog make_log() {
  const int fd = open_memory_file("am-repl-rank");
  if (fd < 0) {
    throw Error(ErrorKind::kRuntime,
                cat("cannot create a log file in memory: ", std::strerror(errno)));
  }
  launch::RankLog log(cat("/proc/self/fd/", fd));  // reopens the in-memory file by its path
  ::close(fd);
  return log;
}

launch::RankEnvironment environment_of(int64_t rank, int64_t ranks, int port) {
  launch::RankEnvironment environment;
  environment.rank = rank;
  environment.world_size = ranks;
  environment.local_rank = rank;
  environment.local_world_size = ranks;
  environment.master_port = port;
  environment.launcher = "local";
  return environment;
}

// Two ends of a connection to a rank. `ours` closes on exec. The process of the rank inherits
// `theirs`; start() then closes `theirs` in this process.
struct SocketPair {
  int ours = -1;
  int theirs = -1;

  SocketPair() {
    int fds[2];
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) != 0) {
      throw Error(ErrorKind::kRuntime, cat("cannot create a socket: ", std::strerror(errno)));
    }
    ours = fds[0];
    theirs = ::fcntl(fds[1], F_DUPFD, 10);  // a descriptor above those of the standard streams
    ::close(fds[1]);
  }
};

// Returns whether the process has ended, and stores its exit status or signal in `exit`. With
// `wait`, waits for the end of the process.
bool reap(pid_t pid, launch::RankExit& exit, bool wait) {
  int status = 0;
  if (::waitpid(pid, &status, wait ? 0 : WNOHANG) != pid) return false;
  if (WIFSIGNALED(status)) {
    exit.signal = WTERMSIG(status);
  } else {
    exit.exit_status = WEXITSTATUS(status);
  }
  exit.time =
      std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  return true;
}

// Describes the end of a process that has closed its socket. Waits up to 200 ms for this end.
// Leaves the process as a zombie, so that reap() can still read its exit status.
std::string how_it_ended(pid_t pid) {
  for (int i = 0; i < 20; ++i) {
    siginfo_t info = {};
    if (::waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOHANG | WNOWAIT) != 0) break;
    if (info.si_pid == 0) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
      continue;
    }
    launch::RankExit exit;
    (info.si_code == CLD_EXITED ? exit.exit_status : exit.signal) = info.si_status;
    return cat(" has ended: ", launch::end_text(exit));
  }
  return " has closed its connection";
}

}  // namespace

RankProcesses::RankProcesses(const std::vector<std::string>& argv, const WorkerSetup& setup,
                             int64_t ranks, WaitOptions wait, const term::Style& style)
    : wait_(std::move(wait)), style_(style) {
  try {
    start(argv, ranks);
    send_all(to_json(setup));
    begin("the start");
    if (!receive_all())
      throw SessionLost(cat("given up: ", missing_text(), " has not loaded the model\n"));
    const std::vector<Json> ready = take_replies();
    for (const Json& message : ready) {
      if (!message.contains("error")) continue;
      throw unpack(message).error->as_error();
    }
    facts_.title = ready.front().at("title").get<std::string>();
    facts_.parameters = ready.front().at("parameters").get<std::vector<std::string>>();
    facts_.modules = ready.front().at("modules").get<std::vector<std::string>>();
    facts_.note = ready.front().at("note").get<std::string>();
    const SignalsBlocked blocked;
    keeper_ = std::thread([this] { keep(); });
  } catch (...) {
    end_ranks();
    throw;
  }
}

RankProcesses::~RankProcesses() { end_ranks(); }

void RankProcesses::start(const std::vector<std::string>& argv, int64_t ranks) {
  store_ = std::make_unique<launch::StoreServer>(0, launch::BindScope::kThisMachine);
  launch::TorchrunOptions options;
  options.agent_store = true;
  options.cores = launch::usable_cores();
  options.omp_num_threads_given = launch::process_environment()("OMP_NUM_THREADS").has_value();
  for (int64_t rank = 0; rank < ranks; ++rank) {
    const SocketPair sockets;
    Rank started{0, sockets.ours, make_log()};
    launch::ProcessSpec process;
    process.argv = argv;
    process.argv.push_back(std::to_string(sockets.theirs));
    process.environment =
        launch::torchrun_variables(environment_of(rank, ranks, store_->port()), options);
    process.output_fd = started.log.fd();
    try {
      started.pid = launch::spawn(process);
    } catch (...) {
      ::close(sockets.theirs);
      ::close(sockets.ours);
      throw;
    }
    ::close(sockets.theirs);
    ranks_.push_back(std::move(started));
  }
}

void RankProcesses::send_all(const Json& message) {
  // The result is ignored, because receive_all() detects ranks that have exited.
  for (const Rank& rank : ranks_) send_message(rank.socket, message);
}

void RankProcesses::begin(const std::string& input) {
  set_busy(true);
  pending_.emplace();
  pending_->input = input;
  pending_->since = Clock::now();
}

bool RankProcesses::receive_all() {
  std::vector<std::optional<Json>>& replies = pending_->replies;
  replies.resize(ranks_.size());
  while (!missing(false).empty()) {
    std::vector<pollfd> sockets;
    for (size_t i = 0; i < ranks_.size(); ++i) {
      // poll() ignores the descriptor -1, which is used for ranks that have answered.
      sockets.push_back({replies[i] ? -1 : ranks_[i].socket, POLLIN, 0});
    }
    ::poll(sockets.data(), sockets.size(), kPollMilliseconds);
    for (size_t i = 0; i < ranks_.size(); ++i) {
      if (sockets[i].revents == 0) continue;
      replies[i] = receive_message(ranks_[i].socket);
      if (!replies[i]) fail();
      const bool fatal = replies[i]->contains("error") && unpack(*replies[i]).error->fatal();
      if (fatal) fail();
    }
    if (!obey_interrupt()) return false;
    name_missing();
  }
  return true;
}

std::vector<Json> RankProcesses::take_replies() {
  std::vector<Json> messages;
  for (auto& reply : pending_->replies) messages.push_back(*std::move(reply));
  pending_.reset();
  set_busy(false);
  return messages;
}

// Returns the ranks that have not answered. With `stopped_only`, returns only ranks whose process
// is stopped, for example by SIGSTOP.
std::vector<size_t> RankProcesses::missing(bool stopped_only) const {
  std::vector<size_t> found;
  for (size_t i = 0; i < ranks_.size(); ++i) {
    if (i < pending_->replies.size() && pending_->replies[i]) continue;
    const bool stopped =
        stopped_only && launch::process_state(ranks_[i].pid) == launch::ProcessState::kStopped;
    if (stopped || !stopped_only) found.push_back(i);
  }
  return found;
}

// Returns the ranks that have not answered as text, for example "rank 1 (stopped, pid 123)". If any
// of their processes are stopped, lists only those ranks.
std::string RankProcesses::missing_text() const {
  std::vector<size_t> named = missing(true);
  if (named.empty()) named = missing(false);
  std::vector<std::string> texts;
  for (const size_t rank : named) {
    const pid_t pid = ranks_[rank].pid;
    texts.push_back(
        cat("rank ", rank, " (", to_string(launch::process_state(pid)), ", pid ", pid, ")"));
  }
  return join(texts, ", ");
}

// After kPatience, notifies the user about ranks that are stopped, or that have not answered
// although other ranks have. Prints nothing if all ranks run the command and none is stopped, or if
// the previous notice listed the same ranks in the same states.
void RankProcesses::name_missing() {
  if (!wait_.notice || Clock::now() - pending_->since < kPatience) return;
  const std::vector<size_t> all = missing(false);
  if (all.empty() || (all.size() == ranks_.size() && missing(true).empty())) return;
  std::string text = missing_text();
  if (text == pending_->named) return;
  wait_.notice(cat("waiting for ", text));
  pending_->named = std::move(text);
}

bool RankProcesses::obey_interrupt() {
  if (wait_.interrupted && wait_.interrupted()) {
    if (wait_.forget_interrupt) wait_.forget_interrupt();
    if (pending_->interrupted) {
      const std::string report =
          cat("ended while `", pending_->input, "` waited for ", missing_text(), "\n");
      end_ranks();
      throw SessionLost(report);
    }
    pending_->interrupted = Clock::now();
    for (const Rank& rank : ranks_) ::kill(rank.pid, SIGINT);
  }
  const bool waits = !pending_->interrupted || pending_->given_up || missing(false).empty();
  if (waits) return true;
  return missing(true).empty() && Clock::now() - *pending_->interrupted < kPatience;
}

// Returns how one rank ended; kills the rank if it is still running. `reply` is the rank's last
// message, if receive_all() has received one.
launch::RankExit RankProcesses::end_rank(int64_t index, std::optional<Json> reply) {
  Rank& rank = ranks_[static_cast<size_t>(index)];
  launch::RankExit exit;
  exit.rank = index;
  if (!reap(rank.pid, exit, false)) {
    ::kill(-rank.pid, SIGKILL);
    reap(rank.pid, exit, true);
    exit.stopped = true;
  }
  rank.pid = 0;
  try {
    if (!reply) reply = receive_message(rank.socket);
  } catch (const Error&) {
    // The rank died while it sent a message. The message is incomplete, so there is no reply.
  }
  if (reply && reply->contains("error")) {
    const CommandError error = *unpack(*reply).error;
    // The hint of an error about a lost peer refers to the log files of ranks. A session has no log
    // files; the last lines of output are shown instead.
    const std::string hint = error.kind == ErrorKind::kPeer ? std::string() : error.hint;
    exit.error = launch::rank_error(Error(error.kind, error.message, hint), index);
    // A rank that sent an error counts as failed, even if its process had to be killed here.
    if (exit.stopped) {
      exit.stopped = false;
      exit.signal = 0;
      exit.exit_status = 1;
    }
  }
  if (!exit.stopped && !exit.error) exit.tail = rank.log.tail(kTailLines);
  return exit;
}

void RankProcesses::fail() {
  // A stopped rank is the cause, even if the ranks that waited for the stopped rank failed earlier.
  if (!missing(true).empty()) {
    const std::string stopped = missing_text();
    end_ranks();
    throw SessionLost(cat(stopped, " did not answer, and the other ranks waited for it\n"));
  }
  std::this_thread::sleep_for(kSettle);
  launch::JobResult job;
  job.exit_status = 1;
  for (size_t i = 0; i < ranks_.size(); ++i) {
    job.ranks.push_back(end_rank(static_cast<int64_t>(i), pending_->replies[i]));
  }
  job.cause = launch::find_cause(job.ranks);
  const std::string report = launch::describe(job);
  end_ranks();
  throw SessionLost(report.empty() ? "a rank ended unexpectedly\n" : report);
}

void RankProcesses::set_busy(bool busy) {
  const std::lock_guard lock(mutex_);
  busy_ = busy;
}

void RankProcesses::keep() {
  std::vector<pollfd> sockets;
  for (const Rank& rank : ranks_) sockets.push_back({rank.socket, POLLRDHUP, 0});
  std::unique_lock lock(mutex_);
  while (!changed_.wait_for(lock, std::chrono::milliseconds(kPollMilliseconds),
                            [&] { return leaving_; })) {
    if (busy_ || ::poll(sockets.data(), sockets.size(), 0) <= 0) continue;
    for (size_t i = 0; i < sockets.size(); ++i) {
      if (sockets[i].revents == 0) continue;
      if (wait_.notice) {
        wait_.notice(cat("rank ", i, how_it_ended(ranks_[i].pid),
                         ": the next command that needs the ranks ends the session"));
      }
      return;
    }
  }
}

void RankProcesses::end_ranks() {
  {
    const std::lock_guard lock(mutex_);
    leaving_ = true;
  }
  changed_.notify_all();
  if (keeper_.joinable()) keeper_.join();
  for (Rank& rank : ranks_) {
    if (rank.socket >= 0) ::close(rank.socket);
    rank.socket = -1;
  }
  const auto deadline = std::chrono::steady_clock::now() + kSettle;
  for (Rank& rank : ranks_) {
    launch::RankExit ignored;
    while (rank.pid != 0 && !reap(rank.pid, ignored, false)) {
      if (std::chrono::steady_clock::now() > deadline) {
        ::kill(-rank.pid, SIGKILL);
        reap(rank.pid, ignored, true);
        break;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    rank.pid = 0;
  }
  ranks_.clear();
  pending_.reset();
}

Outcome RankProcesses::run(const std::string& input) {
  if (auto outcome = execute_without_session(input, style_)) return *std::move(outcome);
  if (ranks_.empty()) throw SessionLost("the session is over: its ranks have ended\n");
  const auto given_up = [&] {
    Outcome outcome;
    outcome.input = input;
    outcome.error = {
        ErrorKind::kUsage,
        cat("given up: ", missing_text(), " has not finished `", pending_->input, "`"),
        cat("`help` and `quit` need no rank; any other command first waits until `",
            pending_->input, "` has finished, and Ctrl-C during that wait ends the session")};
    return outcome;
  };
  if (pending_) {  // the ranks may still run an abandoned command
    pending_->given_up = true;
    pending_->since = Clock::now();
    pending_->named.clear();
    if (!receive_all()) return given_up();
    take_replies();
  }
  send_all({{"input", input}, {"width", style_.width}, {"height", style_.height}});
  begin(input);
  if (!receive_all()) return given_up();
  const std::vector<Json> replies = take_replies();
  Outcome outcome = unpack(replies.front());
  for (size_t i = 1; i < replies.size(); ++i) {
    const Outcome other = unpack(replies[i]);
    if (other.error.has_value() == outcome.error.has_value()) continue;
    // The command failed on some ranks, but not on all. The session ends, because the states of the
    // ranks may differ from now on.
    const CommandError error = outcome.error ? *outcome.error : *other.error;
    end_ranks();
    throw SessionLost(cat("rank ", outcome.error ? 0 : i, ": ", error.message, "\n"));
  }
  return outcome;
}

}  // namespace am::inspect
