#include "am/runtime/near_cores.h"

#include <sched.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <optional>

#include "am/base/number.h"

namespace am::runtime {

namespace fs = std::filesystem;

namespace {

std::set<int> cores_in(const fs::path& file) {
  std::ifstream in(file);
  std::string line;
  std::getline(in, line);
  return parse_core_list(line);
}

std::set<int> own_cores() {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  std::set<int> cores;
  if (::sched_getaffinity(0, sizeof mask, &mask) != 0) return cores;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &mask)) cores.insert(core);
  }
  return cores;
}

}  // namespace

std::set<int> parse_core_list(std::string_view text) {
  std::set<int> cores;
  while (!text.empty()) {
    const size_t comma = std::min(text.find(','), text.size());
    const std::string_view range = text.substr(0, comma);
    text.remove_prefix(std::min(comma + 1, text.size()));
    const size_t dash = std::min(range.find('-'), range.size());
    const auto first = parse_integer(range.substr(0, dash));
    const auto last = dash == range.size() ? first : parse_integer(range.substr(dash + 1));
    if (!first || !last || *first < 0 || *last < *first || *last >= CPU_SETSIZE) return {};
    for (int64_t core = *first; core <= *last; ++core) cores.insert(static_cast<int>(core));
  }
  return cores;
}

bool keep_near(const std::string& pci_address, const fs::path& root) {
  const std::set<int> own = own_cores();
  if (own != cores_in(root / "sys/devices/system/cpu/online") &&
      own != cores_in(root / "sys/fs/cgroup/cpuset.cpus.effective")) {
    return false;
  }
  const std::set<int> near = cores_in(root / "sys/bus/pci/devices" / pci_address / "local_cpulist");
  std::set<int> chosen;
  std::set_intersection(own.begin(), own.end(), near.begin(), near.end(),
                        std::inserter(chosen, chosen.end()));
  if (chosen.empty() || chosen == own) return false;
  cpu_set_t mask;
  CPU_ZERO(&mask);
  for (const int core : chosen) CPU_SET(core, &mask);
  return ::sched_setaffinity(0, sizeof mask, &mask) == 0;
}

}  // namespace am::runtime
