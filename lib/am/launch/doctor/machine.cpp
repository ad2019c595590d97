#include "am/launch/doctor/machine.h"

#include <dlfcn.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/timex.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <limits>

#include "am/base/text.h"
#include "am/launch/environment/open_files.h"
#include "am/launch/environment/port.h"

namespace am::launch {
namespace {

namespace fs = std::filesystem;

std::optional<MemoryInfo> space_of(const fs::path& path) {
  struct statvfs info = {};
  if (::statvfs(path.c_str(), &info) != 0) return std::nullopt;
  const auto block = static_cast<int64_t>(info.f_frsize);
  return MemoryInfo{static_cast<int64_t>(info.f_blocks) * block,
                    static_cast<int64_t>(info.f_bavail) * block};
}

std::optional<int64_t> hard_limit_of_files() {
  const int64_t hard = open_file_limit().hard;
  return hard == std::numeric_limits<int64_t>::max() ? std::nullopt : std::optional(hard);
}

std::optional<int64_t> limit_of(int resource) {
  rlimit limit = {};
  if (::getrlimit(static_cast<__rlimit_resource>(resource), &limit) != 0) return std::nullopt;
  if (limit.rlim_cur == RLIM_INFINITY) return std::nullopt;
  return static_cast<int64_t>(limit.rlim_cur);
}

Limits limits_of_process() {
  return {hard_limit_of_files(), limit_of(RLIMIT_NPROC), limit_of(RLIMIT_MEMLOCK)};
}

ClockFacts clock_of_system() {
  ClockFacts facts;
  const std::time_t now = std::time(nullptr);
  std::tm utc = {};
  if (::gmtime_r(&now, &utc) != nullptr) facts.year = utc.tm_year + 1900;
  timex state = {};  // with modes = 0, adjtimex only reads the clock's state
  const int answer = ::adjtimex(&state);
  if (answer >= 0) facts.synchronized = answer != TIME_ERROR && (state.status & STA_UNSYNC) == 0;
  return facts;
}

int64_t cores_of_process() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (::sched_getaffinity(0, sizeof(set), &set) != 0) return 1;
  return std::max(1, CPU_COUNT(&set));
}

int64_t entries_of(const fs::path& folder) {
  std::error_code reason;
  const fs::directory_iterator entries(folder, reason);
  return reason ? 0 : std::distance(begin(entries), end(entries));
}

// Returns the folder if it exists, otherwise its nearest parent that exists.
fs::path existing_part(fs::path folder) {
  std::error_code ignored;
  while (!folder.empty() && !fs::exists(folder, ignored) && folder != folder.root_path()) {
    folder = folder.parent_path();
  }
  return folder.empty() ? fs::path(".") : folder;
}

bool is_in_path(const EnvironmentLookup& environment, const char* program) {
  const std::vector<std::string> folders = split(environment("PATH").value_or(""), ':');
  return std::any_of(folders.begin(), folders.end(), [&](const std::string& folder) {
    return ::access((fs::path(folder) / program).c_str(), X_OK) == 0;
  });
}

void ask_nccl(const std::vector<std::string>& libraries, Machine& machine) {
  for (const std::string& library : libraries) {
    void* handle = ::dlopen(library.c_str(), RTLD_LAZY | RTLD_LOCAL);
    if (handle == nullptr) {
      const char* reason = ::dlerror();
      if (machine.nccl_problem.empty()) machine.nccl_problem = reason != nullptr ? reason : library;
      continue;
    }
    auto* get = reinterpret_cast<int (*)(int*)>(::dlsym(handle, "ncclGetVersion"));
    int version = 0;
    if (get != nullptr && get(&version) == 0) {
      machine.nccl_version = version;
      machine.nccl_problem.clear();
    } else {
      machine.nccl_problem = cat(library, " does not report its version");
    }
    ::dlclose(handle);
    if (machine.nccl_version) return;
  }
}

}  // namespace

Machine gather_machine(const MachineQuestion& question, const MachineSources& sources) {
  const auto space = sources.space ? sources.space : space_of;
  Machine machine;
  machine.environment = sources.environment;
  machine.cores = cores_of_process();
  machine.memory = memory_of_machine(sources.root);
  machine.shm = space(sources.root / "dev/shm");
  machine.disk = space(existing_part(question.run_folder));
  machine.limits = sources.limits ? sources.limits() : limits_of_process();
  machine.clock = sources.clock ? sources.clock() : clock_of_system();
  machine.gpus = ask_nvml(sources.nvml);
  ask_nccl(sources.nccl, machine);
  machine.has_mps = is_in_path(sources.environment, "nvidia-cuda-mps-control");
  machine.infiniband_devices = entries_of(sources.root / "sys/class/infiniband");
  machine.address_problem = address_problem(question.master_addr);
  if (question.master_port != 0) machine.port_problem = port_problem(question.master_port);
  return machine;
}

}  // namespace am::launch
