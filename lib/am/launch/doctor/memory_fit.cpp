#include "am/launch/doctor/memory_fit.h"

#include <algorithm>
#include <fstream>
#include <sstream>
#include <string_view>
#include <utility>
#include <vector>

#include "am/base/text.h"
#include "am/base/units.h"

namespace am::launch {
namespace {

namespace fs = std::filesystem;

// Returns the number at the start of a file; nothing if the file starts with other text, such as
// "max".
std::optional<int64_t> number_in(const fs::path& path) {
  std::ifstream file(path);
  int64_t value = 0;
  if (!(file >> value)) return std::nullopt;
  return value;
}

// Returns the number after a name at the beginning of a line, for example 16318440 for "MemTotal:"
// from "MemTotal:  16318440 kB".
std::optional<int64_t> number_of(const fs::path& path, std::string_view name) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string key;
    int64_t value = 0;
    if (words >> key >> value && key == name) return value;
  }
  return std::nullopt;
}

// Names of the files and keys for memory in one version of control groups, 1 or 2.
struct GroupFiles {
  // Controller's name in the group's line of /proc/self/cgroup: "memory"; "" for version 2.
  std::string_view controller;
  const char* mount;
  const char* limit;
  const char* used;
  const char* droppable;  // key in memory.stat with the bytes of file caches that can be dropped
};
constexpr GroupFiles kVersions[] = {
    {"", "sys/fs/cgroup", "memory.max", "memory.current", "inactive_file"},
    {"memory", "sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes",
     "total_inactive_file"}};

// Returns the path of this process's control group, relative to the mount. /proc/self/cgroup
// contains the path in a line such as "0::/a/b" (version 2) or "5:cpu,memory:/a" (version 1). In a
// container, the line may contain a path of the host that does not exist in the container. The
// files of the group are then in the mount's top folder.
fs::path group_of(const fs::path& root, const GroupFiles& files) {
  std::ifstream file(root / "proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    const size_t first = line.find(':');
    const size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::vector<std::string> controllers =
        split(line.substr(first + 1, second - first - 1), ',');
    const bool found =
        std::find(controllers.begin(), controllers.end(), files.controller) != controllers.end();
    if (found) return fs::path(line.substr(second + 1)).relative_path();
  }
  return {};
}

// Reduces `memory` to the limit of a group. Ignores a limit that is not below `machine`, the
// machine's memory in bytes.
void narrow(const fs::path& group, const GroupFiles& files, int64_t machine, MemoryInfo& memory) {
  const auto most = number_in(group / files.limit);
  if (!most || *most >= machine) return;
  const int64_t used = number_in(group / files.used).value_or(0) -
                       number_of(group / "memory.stat", files.droppable).value_or(0);
  memory.total = std::min(memory.total, *most);
  memory.available = std::min(memory.available, std::clamp<int64_t>(*most - used, 0, *most));
}

}  // namespace

MemoryInfo memory_of_machine(const fs::path& root) {
  const fs::path meminfo = root / "proc/meminfo";
  MemoryInfo memory{number_of(meminfo, "MemTotal:").value_or(0) * 1024,
                    number_of(meminfo, "MemAvailable:").value_or(0) * 1024};
  const int64_t machine = memory.total;
  for (const GroupFiles& files : kVersions) {
    const fs::path mount = root / files.mount;
    // The limits of all parent groups apply too.
    fs::path group = group_of(root, files);
    for (; !group.empty(); group = group.parent_path())
      narrow(mount / group, files, machine, memory);
    narrow(mount, files, machine, memory);
  }
  return memory;
}

std::optional<std::string> memory_shortage(int64_t wanted, const MemoryInfo& memory) {
  if (memory.total == 0 || wanted <= memory.available) return std::nullopt;
  return cat("takes ", format_bytes(wanted), " of memory, but only ",
             format_bytes(memory.available), " of ", format_bytes(memory.total),
             " are available here");
}

}  // namespace am::launch
