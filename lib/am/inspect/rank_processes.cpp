#include "am/inspect/rank_processes.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/mman.h>
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
#include "am/base/text.h"
#include "am/inspect/messages.h"
#include "am/launch/cores.h"
#include "am/launch/environment.h"
#include "am/launch/first_cause.h"
#include "am/launch/port.h"
#include "am/launch/process.h"
#include "am/launch/torchrun.h"

namespace am::inspect {
namespace {

// How long ranks have to end by themselves: after a peer died, to tell cause from consequence; and
// at the end of a session, where the closed socket tells them.
constexpr auto kSettle = std::chrono::milliseconds(500);
constexpr int kPollMilliseconds = 100;
constexpr int kTailLines = 20;

// A rank's output, in memory: only its end is ever shown, and nothing is left behind however
// am-repl ends.
launch::RankLog make_log() {
  const int fd = ::memfd_create("am-repl-rank", MFD_CLOEXEC);
  if (fd < 0) {
    throw Error(ErrorKind::kRuntime, cat("cannot make a log in memory: ", std::strerror(errno)));
  }
  launch::RankLog log(cat("/proc/self/fd/", fd));  // opens the same file again
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

// Both ends close on exec; the child's end is inherited by the one process that is started next.
struct SocketPair {
  int ours = -1;
  int theirs = -1;

  SocketPair() {
    int fds[2];
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) != 0) {
      throw Error(ErrorKind::kRuntime, cat("cannot make a socket: ", std::strerror(errno)));
    }
    ours = fds[0];
    theirs = ::fcntl(fds[1], F_DUPFD, 10);  // above what the child's standard streams take
    ::close(fds[1]);
  }
};

// Fills how the process ended. True when it has.
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

}  // namespace

RankProcesses::RankProcesses(const std::vector<std::string>& argv, const WorkerSetup& setup,
                             int64_t ranks)
    : interrupted_(setup.session.interrupted) {
  try {
    start(argv, ranks);
    send_all(to_json(setup));
    const std::vector<Json> ready = receive_all();
    for (const Json& message : ready) {
      if (!message.contains("error")) continue;
      const CommandError error = *unpack(message).error;
      throw Error(error.kind, error.message, error.hint);
    }
    facts_.title = ready.front().at("title").get<std::string>();
    facts_.parameters = ready.front().at("parameters").get<std::vector<std::string>>();
    facts_.modules = ready.front().at("modules").get<std::vector<std::string>>();
  } catch (...) {
    end_ranks();
    throw;
  }
}

RankProcesses::~RankProcesses() { end_ranks(); }

void RankProcesses::start(const std::vector<std::string>& argv, int64_t ranks) {
  const int port = launch::free_port();
  launch::TorchrunOptions options;
  options.cores = launch::usable_cores();
  options.omp_num_threads_given = launch::process_environment()("OMP_NUM_THREADS").has_value();
  for (int64_t rank = 0; rank < ranks; ++rank) {
    const SocketPair sockets;
    Rank started{0, sockets.ours, make_log()};
    launch::ProcessSpec process;
    process.argv = argv;
    process.argv.push_back(std::to_string(sockets.theirs));
    process.environment = launch::torchrun_variables(environment_of(rank, ranks, port), options);
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
  // A rank that has gone shows at the next read.
  for (const Rank& rank : ranks_) send_message(rank.socket, message);
}

std::vector<Json> RankProcesses::receive_all() {
  std::vector<std::optional<Json>> replies(ranks_.size());
  size_t missing = ranks_.size();
  bool passed_on = false;
  while (missing > 0) {
    std::vector<pollfd> sockets;
    for (size_t i = 0; i < ranks_.size(); ++i) {
      sockets.push_back({replies[i] ? -1 : ranks_[i].socket, POLLIN, 0});  // poll passes over -1
    }
    ::poll(sockets.data(), sockets.size(), kPollMilliseconds);
    pass_on_interrupt(passed_on);
    for (size_t i = 0; i < ranks_.size(); ++i) {
      if (sockets[i].revents == 0) continue;
      replies[i] = receive_message(ranks_[i].socket);
      if (!replies[i]) fail(replies);
      const bool fatal = replies[i]->contains("error") && unpack(*replies[i]).error->fatal();
      if (fatal) fail(replies);
      --missing;
    }
  }
  std::vector<Json> messages;
  for (auto& reply : replies) messages.push_back(*std::move(reply));
  return messages;
}

void RankProcesses::pass_on_interrupt(bool& passed_on) {
  if (passed_on || !interrupted_ || !interrupted_()) return;
  for (const Rank& rank : ranks_) ::kill(rank.pid, SIGINT);
  passed_on = true;
}

// How one rank ended; it is killed when it has not. `reply` is what it sent last.
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
    // Half a message from a rank that died while it wrote.
  }
  if (reply && reply->contains("error")) {
    const CommandError error = *unpack(*reply).error;
    exit.error = launch::rank_error(Error(error.kind, error.message, error.hint), index);
    if (exit.stopped) {  // it had failed by itself, and waited for the next command
      exit.stopped = false;
      exit.signal = 0;
      exit.exit_status = 1;
    }
  }
  if (!exit.stopped && !exit.error) exit.tail = rank.log.tail(kTailLines);
  return exit;
}

void RankProcesses::fail(const std::vector<std::optional<Json>>& replies) {
  std::this_thread::sleep_for(kSettle);
  launch::JobResult job;
  job.exit_status = 1;
  for (size_t i = 0; i < ranks_.size(); ++i) {
    job.ranks.push_back(end_rank(static_cast<int64_t>(i), replies[i]));
  }
  job.cause = launch::find_cause(job.ranks);
  const std::string report = launch::describe(job);
  end_ranks();
  throw SessionLost(report.empty() ? "a rank went away\n" : report);
}

void RankProcesses::end_ranks() {
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
}

Outcome RankProcesses::run(const std::string& input) {
  if (ranks_.empty()) throw SessionLost("the session is over: its ranks have gone\n");
  send_all({{"input", input}});
  const std::vector<Json> replies = receive_all();
  Outcome outcome = unpack(replies.front());
  for (size_t i = 1; i < replies.size(); ++i) {
    const Outcome other = unpack(replies[i]);
    if (other.ok() == outcome.ok()) continue;
    // The ranks disagree: what they hold may differ from now on.
    const CommandError error = outcome.ok() ? *other.error : *outcome.error;
    end_ranks();
    throw SessionLost(cat("rank ", outcome.ok() ? i : 0, ": ", error.message, "\n"));
  }
  return outcome;
}

}  // namespace am::inspect
