// Tests the search for the cores near a device, in a synthetic sysfs.
#include "am/runtime/near_cores.h"

#include <sched.h>

#include <catch2/catch.hpp>
#include <fstream>
#include <string>
#include <thread>

#include "am/base/text.h"
#include "support/temporary_folder.h"

namespace am::runtime {
namespace {

namespace fs = std::filesystem;

std::set<int> own_cores() {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  REQUIRE(::sched_getaffinity(0, sizeof mask, &mask) == 0);
  std::set<int> cores;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &mask)) cores.insert(core);
  }
  return cores;
}

std::string listed(const std::set<int>& cores) {
  std::string text;
  for (const int core : cores) text += cat(text.empty() ? "" : ",", core);
  return text;
}

void write_line(const fs::path& file, const std::string& line) {
  fs::create_directories(file.parent_path());
  std::ofstream(file) << line << "\n";
}

// Returns the affinity of a thread after keep_near(), which must return `expected`.
std::set<int> cores_near(const fs::path& root, bool expected) {
  std::set<int> cores;
  bool did = !expected;
  std::thread([&] {
    did = keep_near("0000:3b:00.0", root);
    cores = own_cores();
  }).join();
  CHECK(did == expected);
  return cores;
}

}  // namespace

TEST_CASE("lists of cores as the kernel writes them") {
  CHECK(parse_core_list("0-3,8") == std::set<int>{0, 1, 2, 3, 8});
  CHECK(parse_core_list("7") == std::set<int>{7});
  CHECK(parse_core_list("").empty());
  for (const char* wrong : {"x", "3-1", "0-", "-2", "0,,1", "0-99999999"}) {
    INFO(wrong);
    CHECK(parse_core_list(wrong).empty());
  }
}

TEST_CASE("a thread is kept on the cores near its device, where nobody chose any") {
  const std::set<int> own = own_cores();
  if (own.size() < 2) return;  // with one core there is no choice
  const TemporaryFolder folder;
  const fs::path root = folder.path();
  const fs::path near = root / "sys/bus/pci/devices/0000:3b:00.0/local_cpulist";
  const fs::path online = root / "sys/devices/system/cpu/online";
  const int last = *own.rbegin();
  write_line(online, listed(own));
  CHECK(cores_near(root, false) == own);  // the device does not exist
  write_line(near, std::to_string(last));
  CHECK(cores_near(root, true) == std::set<int>{last});
  write_line(near, std::to_string(last + 1));
  CHECK(cores_near(root, false) == own);  // the near core is not available to this process
  write_line(near, std::to_string(last));
  write_line(online, cat(listed(own), ",", last + 1));
  CHECK(cores_near(root, false) == own);  // the affinity lacks an online core, so the user set it
  write_line(root / "sys/fs/cgroup/cpuset.cpus.effective", listed(own));
  CHECK(cores_near(root, true) ==
        std::set<int>{last});  // the affinity contains all cores of the container
}

}  // namespace am::runtime
