#include "am/launch/local.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <cstring>

#include "am/base/error.h"
#include "am/base/text.h"
#include "am/launch/port.h"
#include "am/launch/process.h"
#include "am/launch/rank_log.h"
#include "am/launch/signal_scope.h"
#include "am/launch/torchrun.h"

namespace am::launch {
namespace {

using Clock = std::chrono::steady_clock;

Clock::time_point after(double seconds) {
  return Clock::now() + std::chrono::duration_cast<Clock::duration>(
                            std::chrono::duration<double>(std::max(0.0, seconds)));
}

double wall_time() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

// Cores that this process may use.
int64_t usable_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (::sched_getaffinity(0, sizeof(set), &set) != 0) return 1;
  return std::max(1, CPU_COUNT(&set));
}

// The job's log folder, or a temporary one that goes away with this object.
class LogFolder {
 public:
  explicit LogFolder(const std::filesystem::path& wanted) : path_(wanted) {
    std::error_code reason;
    if (wanted.empty()) {
      std::string name = (std::filesystem::temp_directory_path() / "am-run-XXXXXX").string();
      if (::mkdtemp(name.data()) == nullptr) {
        throw Error(ErrorKind::kIo, cat(name, ": cannot make a folder: ", std::strerror(errno)));
      }
      path_ = name;
      temporary_ = true;
    } else if (!std::filesystem::is_directory(wanted) &&
               !std::filesystem::create_directories(wanted, reason)) {
      throw Error(ErrorKind::kIo,
                  cat(wanted.string(), ": cannot make the log folder: ", reason.message()));
    }
  }
  LogFolder(const LogFolder&) = delete;
  LogFolder& operator=(const LogFolder&) = delete;
  ~LogFolder() {
    std::error_code ignored;
    if (temporary_) std::filesystem::remove_all(path_, ignored);
  }

  bool temporary() const { return temporary_; }
  std::filesystem::path log(int64_t rank) const { return path_ / cat("rank-", rank, ".log"); }
  std::filesystem::path error_file(int64_t rank) const {
    return path_ / cat("rank-", rank, ".error.json");
  }

 private:
  std::filesystem::path path_;
  bool temporary_ = false;
};

struct Child {
  pid_t pid = 0;  // 0: ended and reaped
  RankLog log;
  std::array<bool, NSIG> sent = {};  // signals that the launcher sent it
  RankExit exit;
};

class Supervisor {
 public:
  Supervisor(const JobSpec& spec, const JobCallbacks& callbacks)
      : spec_(spec),
        callbacks_(callbacks),
        folder_(spec.log_folder),
        signals_({SIGTERM, SIGINT, SIGHUP, SIGCHLD}) {}

  // Only a fault leaves children here: none may outlive the launcher.
  ~Supervisor() {
    for (Child& child : children_) {
      if (child.pid == 0) continue;
      ::kill(-child.pid, SIGKILL);
      ::waitpid(child.pid, nullptr, 0);
    }
    close_pipe();
  }
  Supervisor(const Supervisor&) = delete;
  Supervisor& operator=(const Supervisor&) = delete;

  JobResult run() {
    start_all();
    announce({JobEventKind::kStarted, -1, 0});
    while (running() > 0) {
      wait();
      for (const int signal : signals_.take()) {
        if (signal != SIGCHLD) on_user_signal(signal);
      }
      reap();
      check_deadlines();
    }
    pump();
    return result();
  }

 private:
  void start_all();
  ProcessSpec process_of(int64_t local_rank, int port, int output_fd) const;
  void wait();
  void pump();
  void close_pipe();
  void reap();
  void on_end(Child& child, const siginfo_t& info);
  void on_failure(const RankExit& exit);
  void on_user_signal(int signal);
  void check_deadlines();
  void send(int signal);
  void kill_all(int signal);
  JobResult result();

  int64_t running() const {
    return std::count_if(children_.begin(), children_.end(),
                         [](const Child& child) { return child.pid != 0; });
  }
  void announce(const JobEvent& event) const {
    if (callbacks_.event) callbacks_.event(event);
  }

  const JobSpec& spec_;
  const JobCallbacks& callbacks_;
  LogFolder folder_;
  SignalScope signals_;
  std::vector<Child> children_;
  int pipe_ = -1;        // rank 0's output
  int stop_signal_ = 0;  // the user's first
  bool killed_ = false;
  bool failed_ = false;
  double stopped_at_ =
      0.0;  // wall time when a failure made the launcher stop the ranks; 0: not yet
  std::optional<Clock::time_point> settle_until_;
  std::optional<Clock::time_point> kill_at_;
};

ProcessSpec Supervisor::process_of(int64_t local_rank, int port, int output_fd) const {
  RankEnvironment environment;
  environment.rank = spec_.node_rank * spec_.nproc + local_rank;
  environment.world_size = spec_.num_nodes * spec_.nproc;
  environment.local_rank = local_rank;
  environment.local_world_size = spec_.nproc;
  environment.node_rank = spec_.node_rank;
  environment.num_nodes = spec_.num_nodes;
  environment.master_addr = spec_.master_addr;
  environment.master_port = port;
  environment.launcher = "local";
  TorchrunOptions options;
  options.run_id = spec_.run_id;
  options.error_file = std::filesystem::absolute(folder_.error_file(environment.rank));
  options.cores = usable_cores();
  options.omp_num_threads_given = process_environment()("OMP_NUM_THREADS").has_value();
  ProcessSpec process;
  process.argv = spec_.argv;
  process.output_fd = output_fd;
  process.environment = torchrun_variables(environment, options);
  process.environment.emplace_back(kErrorFileVariable, options.error_file.string());
  process.environment.insert(process.environment.end(), spec_.environment.begin(),
                             spec_.environment.end());
  return process;
}

void Supervisor::start_all() {
  const int port = spec_.master_port != 0 ? spec_.master_port : free_port();
  int fds[2];
  if (::pipe2(fds, O_CLOEXEC) != 0) {
    throw Error(ErrorKind::kRuntime, cat("cannot make a pipe: ", std::strerror(errno)));
  }
  pipe_ = fds[0];
  ::fcntl(pipe_, F_SETFL, O_NONBLOCK);
  try {
    for (int64_t local_rank = 0; local_rank < spec_.nproc; ++local_rank) {
      const int64_t rank = spec_.node_rank * spec_.nproc + local_rank;
      std::error_code ignored;
      std::filesystem::remove(folder_.error_file(rank), ignored);  // of an earlier run
      Child child{0, RankLog(folder_.log(rank)), {}, {}};
      child.exit.rank = rank;
      child.pid = spawn(process_of(local_rank, port, rank == 0 ? fds[1] : child.log.fd()));
      children_.push_back(std::move(child));
    }
  } catch (...) {
    ::close(fds[1]);
    throw;
  }
  ::close(fds[1]);
}

// Sleeps until a signal, output of rank 0, or the next deadline.
void Supervisor::wait() {
  std::optional<Clock::time_point> deadline = kill_at_;
  if (settle_until_ && (!deadline || *settle_until_ < *deadline)) deadline = settle_until_;
  int timeout = -1;
  if (deadline) {
    const std::chrono::duration<double, std::milli> left = *deadline - Clock::now();
    timeout = static_cast<int>(std::clamp(std::ceil(left.count()), 0.0, 1e9));
  }
  std::array<pollfd, 2> fds = {pollfd{signals_.fd(), POLLIN, 0}, pollfd{pipe_, POLLIN, 0}};
  ::poll(fds.data(), fds.size(), timeout);  // a closed pipe_ is -1, which poll passes over
  if (fds[1].revents != 0) pump();
}

// Takes what rank 0 has written. Bounded, so that a rank that writes without end cannot keep the
// launcher from its other work.
void Supervisor::pump() {
  std::array<char, 16384> bytes;
  for (int round = 0; round < 64 && pipe_ >= 0; ++round) {
    const ssize_t count = ::read(pipe_, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && errno == EAGAIN) return;
    if (count <= 0) return close_pipe();
    const std::string_view text(bytes.data(), static_cast<size_t>(count));
    children_.front().log.append(text);
    if (callbacks_.output) callbacks_.output(text);
  }
}

void Supervisor::close_pipe() {
  if (pipe_ >= 0) ::close(pipe_);
  pipe_ = -1;
}

void Supervisor::reap() {
  for (Child& child : children_) {
    if (child.pid == 0) continue;
    siginfo_t info = {};
    // Looks first and reaps afterwards: while the dead leader is not reaped, its group's id cannot
    // be given to strangers, and what the rank left behind can be ended safely.
    if (::waitid(P_PID, static_cast<id_t>(child.pid), &info, WEXITED | WNOHANG | WNOWAIT) != 0 ||
        info.si_pid == 0) {
      continue;
    }
    ::kill(-child.pid, SIGKILL);
    ::waitpid(child.pid, nullptr, 0);
    child.pid = 0;
    on_end(child, info);
  }
}

void Supervisor::on_end(Child& child, const siginfo_t& info) {
  RankExit& exit = child.exit;
  exit.time = wall_time();
  if (info.si_code == CLD_EXITED) {
    exit.exit_status = info.si_status;
  } else {
    exit.signal = info.si_status;
  }
  exit.error = read_error_file(folder_.error_file(exit.rank));
  if (exit.error) exit.error->rank = exit.rank;
  if (!folder_.temporary()) exit.log = child.log.path();
  if (exit.ok()) return;
  const bool by_our_signal = exit.signal != 0 && child.sent[static_cast<size_t>(exit.signal)];
  const bool told_to_end = stopped_at_ > 0.0 || killed_;
  // An error that was reported before the others were stopped is the rank's own.
  const bool own_error = exit.error && (stopped_at_ == 0.0 ||
                                        (exit.error->time > 0.0 && exit.error->time < stopped_at_));
  exit.stopped = (by_our_signal || told_to_end) && !own_error;
  if (own_error && by_our_signal) {  // it was on its way out when our SIGTERM met it
    exit.signal = 0;
    exit.exit_status = exit.error->exit_status;
  }
  if (!exit.stopped) on_failure(exit);
}

void Supervisor::on_failure(const RankExit& exit) {
  if (!failed_) announce({JobEventKind::kRankFailed, exit.rank, 0});
  failed_ = true;
  if (stopped_at_ > 0.0) return;
  const bool consequence = exit.signal == 0 && exit.error && exit.error->kind == kPeerError;
  if (!consequence) {
    settle_until_ = Clock::now();  // check_deadlines stops the others, after all ends were seen
  } else if (!settle_until_) {
    settle_until_ = after(spec_.settle_seconds);
  }
}

void Supervisor::on_user_signal(int signal) {
  if (stop_signal_ == 0) {
    stop_signal_ = signal;
    announce({JobEventKind::kStopping, -1, signal});
    send(SIGTERM);
    if (spec_.stop_seconds > 0.0 && !kill_at_) kill_at_ = after(spec_.stop_seconds);
  } else if (!killed_) {
    kill_all(signal);
  }
}

void Supervisor::check_deadlines() {
  if (settle_until_ && Clock::now() >= *settle_until_) {
    settle_until_.reset();
    stopped_at_ = wall_time();
    // A rank takes a second SIGTERM as "at once": after the user's one only the time limit is new.
    if (stop_signal_ == 0) send(SIGTERM);
    const auto limit = after(spec_.grace_seconds);
    kill_at_ = kill_at_ ? std::min(*kill_at_, limit) : limit;
  }
  if (kill_at_ && Clock::now() >= *kill_at_) {
    kill_at_.reset();
    if (running() > 0) kill_all(0);
  }
}

void Supervisor::kill_all(int signal) {
  killed_ = true;
  announce({JobEventKind::kKilling, -1, signal});
  send(SIGKILL);
}

// To the whole group of each rank for SIGKILL, to the rank itself for SIGTERM: what it started is
// its own to stop.
void Supervisor::send(int signal) {
  for (Child& child : children_) {
    if (child.pid == 0) continue;
    ::kill(signal == SIGKILL ? -child.pid : child.pid, signal);
    child.sent[static_cast<size_t>(signal)] = true;
  }
}

JobResult Supervisor::result() {
  JobResult result;
  result.stop_signal = stop_signal_;
  result.killed = killed_;
  result.node_rank = spec_.node_rank;
  result.num_nodes = spec_.num_nodes;
  bool all_ok = true;
  for (Child& child : children_) {
    all_ok = all_ok && child.exit.ok();
    if (!child.exit.ok() && !child.exit.stopped) child.exit.tail = child.log.tail(spec_.tail_lines);
    result.ranks.push_back(std::move(child.exit));
  }
  result.cause = find_cause(result.ranks);
  if (result.cause) {
    const RankExit& cause = result.ranks[*result.cause];
    result.exit_status = cause.signal != 0 ? 1 : cause.exit_status;
  } else {
    result.exit_status = all_ok ? 0 : 1;
  }
  return result;
}

}  // namespace

JobResult supervise(const JobSpec& spec, const JobCallbacks& callbacks) {
  const auto require = [](bool condition, const char* message) {
    if (!condition) throw Error(ErrorKind::kUsage, message);
  };
  require(!spec.argv.empty(), "no program to start");
  require(spec.nproc >= 1, "the number of ranks on this machine must be at least 1");
  require(spec.num_nodes >= 1 && spec.node_rank >= 0 && spec.node_rank < spec.num_nodes,
          "the node's rank must be below the number of nodes");
  require(spec.master_port != 0 || spec.num_nodes == 1,
          "several machines need a rendezvous address and port that all of them know");
  return Supervisor(spec, callbacks).run();
}

}  // namespace am::launch
