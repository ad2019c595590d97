#include "am/launch/supervise/rank_children.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <set>
#include <string>
#include <system_error>
#include <utility>

#include "am/base/date.h"
#include "am/base/error.h"
#include "am/base/file.h"
#include "am/base/text.h"
#include "am/launch/environment/cores.h"
#include "am/launch/environment/torchrun.h"
#include "am/launch/supervise/process_state.h"
#include "am/launch/supervise/wall_time.h"
#include "am/run_folder/run_folder.h"

namespace am::launch {
namespace {

// Returns the separator between two attempts in a log; empty before the first attempt.
std::string attempt_line(const JobSpec& spec) {
  if (spec.restart_count == 0) return {};
  return cat("--- restart ", spec.restart_count, " of ", spec.max_restarts, ", ", local_date(),
             " ---\n");
}

// Calls `visit` for each process of the machine that has not ended, until `visit` returns true.
// Returns whether `visit` returned true.
template <typename Visit>
bool any_process(Visit visit) {
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", ignored)) {
    const std::string name = entry.path().filename().string();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    const ProcessStat process = process_stat(entry.path());
    // Skips zombies, which remain indefinitely if the init process does not reap, as in many
    // containers.
    if (process.state != 'Z' && process.state != 'X' && visit(process)) return true;
  }
  return false;
}

bool is_empty(pid_t group) {
  if (::kill(-group, 0) != 0 && errno == ESRCH) return true;
  return !any_process([&](const ProcessStat& process) { return process.group == group; });
}

}  // namespace

LogFolder::LogFolder(const std::filesystem::path& wanted) : path_(wanted) {
  std::error_code reason;
  if (wanted.empty()) {
    std::string name = (std::filesystem::temp_directory_path() / "am-run-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) {
      throw Error(ErrorKind::kIo, cat(name, ": cannot make a folder: ", std::strerror(errno)));
    }
    path_ = name;
    temporary_ = true;
  } else if (!std::filesystem::is_directory(behind_own_links(wanted)) &&
             !std::filesystem::create_directories(behind_own_links(wanted), reason)) {
    throw Error(ErrorKind::kIo,
                cat(wanted.string(), ": cannot make the log folder: ", reason.message()));
  }
}

LogFolder::~LogFolder() {
  std::error_code ignored;
  if (temporary_) std::filesystem::remove_all(path_, ignored);
}

std::filesystem::path LogFolder::log(int64_t rank) const {
  return path_ / run_folder::rank_log_name(rank);
}

std::filesystem::path LogFolder::error_file(int64_t rank) const {
  return path_ / cat("rank-", rank, ".error.json");
}

RankChildren::RankChildren(const JobSpec& spec, std::function<void(std::string_view)> output)
    : spec_(spec), output_(std::move(output)), folder_(spec.log_folder) {}

RankChildren::~RankChildren() {
  for (const RankChild& child : children_) {
    if (child.group != 0) ::kill(-child.group, SIGKILL);
    if (child.pid == 0) continue;
    ::kill(-child.pid, SIGKILL);
    ::waitpid(child.pid, nullptr, 0);
    guard_.forget(child.pid);
  }
  close_pipe();
}

ProcessSpec RankChildren::process_of(int64_t local_rank, int port, int output_fd,
                                     const ErrorPipe& errors) const {
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
  options.restart_count = spec_.restart_count;
  options.max_restarts = spec_.max_restarts;
  options.agent_store = spec_.agent_store;
  options.error_file = std::filesystem::absolute(folder_.error_file(environment.rank));
  options.cores = usable_cores();
  options.omp_num_threads_given = process_environment()("OMP_NUM_THREADS").has_value();
  ProcessSpec process;
  process.argv = spec_.argv;
  process.output_fd = output_fd;
  process.birth_fd = guard_.birth_fd();
  process.kept_fd = errors.write_end();
  process.environment = torchrun_variables(environment, options);
  process.environment.emplace_back(kErrorFileVariable, options.error_file.string());
  process.environment.emplace_back(kErrorPipeVariable, errors.address());
  process.environment.insert(process.environment.end(), spec_.environment.begin(),
                             spec_.environment.end());
  return process;
}

void RankChildren::start(int master_port) {
  int fds[2];
  if (::pipe2(fds, O_CLOEXEC) != 0) {
    throw Error(ErrorKind::kRuntime, cat("cannot create a pipe: ", std::strerror(errno)));
  }
  pipe_ = fds[0];
  ::fcntl(pipe_, F_SETFL, O_NONBLOCK);
  try {
    for (int64_t local_rank = 0; local_rank < spec_.nproc; ++local_rank) {
      const int64_t rank = spec_.node_rank * spec_.nproc + local_rank;
      std::error_code ignored;
      // An earlier attempt or run may have left an error file.
      std::filesystem::remove(folder_.error_file(rank), ignored);
      RankChild child{0, 0, RankLog(folder_.log(rank), attempt_line(spec_)), {}, {}, {}};
      child.exit.rank = rank;
      child.exit.node = spec_.node_rank;
      const int output_fd = rank == 0 ? fds[1] : child.log.fd();
      child.pid = spawn(process_of(local_rank, master_port, output_fd, child.errors));
      child.errors.close_write_end();
      children_.push_back(std::move(child));
    }
  } catch (...) {
    ::close(fds[1]);
    throw;
  }
  ::close(fds[1]);
}

int64_t RankChildren::running() const {
  return std::count_if(children_.begin(), children_.end(),
                       [](const RankChild& child) { return child.pid != 0; });
}

int64_t RankChildren::lingering() const {
  return std::count_if(children_.begin(), children_.end(),
                       [](const RankChild& child) { return child.group != 0; });
}

// Reads at most 1 MiB per call, so that a rank that writes without pause cannot block the launcher.
void RankChildren::pump(bool echoes) {
  std::array<char, 16384> bytes;
  for (int round = 0; round < 64 && pipe_ >= 0; ++round) {
    const ssize_t count = ::read(pipe_, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && errno == EAGAIN) return;
    if (count <= 0) return close_pipe();
    const std::string_view text(bytes.data(), static_cast<size_t>(count));
    children_.front().log.append(text);
    if (echoes && output_) output_(text);
  }
}

void RankChildren::close_pipe() {
  if (pipe_ >= 0) ::close(pipe_);
  pipe_ = -1;
}

std::vector<RankChild*> RankChildren::reap(bool patient) {
  std::vector<RankChild*> ended;
  for (RankChild& child : children_) {
    if (child.group != 0 && is_empty(child.group)) forget_group(child);
    if (child.pid == 0) continue;
    siginfo_t info = {};
    // Detects the end with WNOWAIT and reaps later. Until the rank's process is reaped, the kernel
    // does not reuse the id of its process group, so a signal to the group reaches only processes
    // that the rank left running.
    if (::waitid(P_PID, static_cast<id_t>(child.pid), &info, WEXITED | WNOHANG | WNOWAIT) != 0 ||
        info.si_pid == 0) {
      continue;
    }
    if (!patient) ::kill(-child.pid, SIGKILL);
    ::waitpid(child.pid, nullptr, 0);
    child.group = std::exchange(child.pid, 0);
    if (!patient || is_empty(child.group)) forget_group(child);
    child.exit.time = wall_time();
    if (info.si_code == CLD_EXITED) {
      child.exit.exit_status = info.si_status;
    } else {
      child.exit.signal = info.si_status;
    }
    child.exit.error = child.errors.read();
    if (!child.exit.error) {
      child.exit.error = read_error_file(folder_.error_file(child.exit.rank));
    }
    if (child.exit.error) child.exit.error->rank = child.exit.rank;
    if (!folder_.temporary()) child.exit.log = child.log.path();
    ended.push_back(&child);
  }
  return ended;
}

void RankChildren::forget_group(RankChild& child) {
  guard_.forget(child.group);
  child.group = 0;
}

std::vector<RankChild*> RankChildren::suspended() {
  std::set<pid_t> groups;
  any_process([&](const ProcessStat& process) {
    if (process.state == 'T' || process.state == 't') groups.insert(process.group);
    return false;
  });
  std::vector<RankChild*> found;
  for (RankChild& child : children_) {
    if (child.pid != 0 && groups.contains(child.pid)) found.push_back(&child);
  }
  return found;
}

bool RankChildren::signal_handlers(int number) const {
  bool any = false;
  for (const RankChild& child : children_) {
    if (child.pid == 0 || !handles_signal(child.pid, number)) continue;
    any = ::kill(child.pid, number) == 0 || any;
  }
  return any;
}

void RankChildren::signal(int number) {
  for (RankChild& child : children_) {
    const pid_t group = child.pid != 0 ? child.pid : child.group;
    if (group == 0) continue;
    ::kill(-group, number);
    if (child.pid != 0) child.sent[static_cast<size_t>(number)] = true;
    if (child.group != 0 && number == SIGKILL) forget_group(child);
  }
}

}  // namespace am::launch
