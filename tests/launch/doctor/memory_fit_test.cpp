#include "am/launch/doctor/memory_fit.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>

#include "support/temporary_folder.h"

using namespace am::launch;

namespace {

constexpr int64_t kTotal = 16'000'000LL * 1024;

class Root {
 public:
  Root() {
    add("proc/meminfo", "MemTotal: 16000000 kB\nMemFree: 10 kB\nMemAvailable: 8000000 kB\n");
  }
  void add(const std::string& file, const std::string& text) const {
    write_text(folder_ / file, text);
  }
  MemoryInfo memory() const { return memory_of_machine(folder_.path()); }

 private:
  TemporaryFolder folder_;
};

}  // namespace

TEST_CASE("a machine without groups has what the kernel says") {
  const Root root;
  CHECK(root.memory().total == kTotal);
  CHECK(root.memory().available == kTotal / 2);
}

TEST_CASE("a group's siblings use memory of the group above") {
  const Root root;
  root.add("proc/self/cgroup", "0::/user.slice/job.scope\n");
  root.add("sys/fs/cgroup/user.slice/memory.max", "5000000\n");
  root.add("sys/fs/cgroup/user.slice/memory.current", "4900000\n");
  root.add("sys/fs/cgroup/user.slice/job.scope/memory.max", "4000000\n");
  root.add("sys/fs/cgroup/user.slice/job.scope/memory.current", "1000\n");
  CHECK(root.memory().total == 4000000);
  CHECK(root.memory().available == 100000);
}

TEST_CASE("every group above a process limits it") {
  const Root root;
  root.add("proc/self/cgroup", "0::/user.slice/job.scope\n");
  root.add("sys/fs/cgroup/user.slice/memory.max", "5000000\n");
  root.add("sys/fs/cgroup/user.slice/memory.current", "4500000\n");
  root.add("sys/fs/cgroup/user.slice/job.scope/memory.max", "max\n");
  CHECK(root.memory().total == 5000000);
  CHECK(root.memory().available == 500000);
  // Page cache counts as available, because the kernel releases it on demand.
  root.add("sys/fs/cgroup/user.slice/memory.stat", "anon 500000\ninactive_file 4000000\n");
  CHECK(root.memory().available == 4500000);
  root.add("sys/fs/cgroup/user.slice/job.scope/memory.max", "2000000\n");
  root.add("sys/fs/cgroup/user.slice/job.scope/memory.current", "2500000\n");
  CHECK(root.memory().total == 2000000);
  CHECK(root.memory().available == 0);
}

TEST_CASE("groups of version 1 limit too") {
  const Root root;
  root.add("proc/self/cgroup", "11:cpu,cpuacct:/x\n5:memory:/docker/abc\n");
  root.add("sys/fs/cgroup/memory/docker/abc/memory.limit_in_bytes", "3000000\n");
  root.add("sys/fs/cgroup/memory/docker/abc/memory.usage_in_bytes", "1000000\n");
  root.add("sys/fs/cgroup/memory/docker/abc/memory.stat", "total_inactive_file 400000\n");
  CHECK(root.memory().total == 3000000);
  CHECK(root.memory().available == 2400000);
}

TEST_CASE("a shortage is told with both numbers") {
  const MemoryInfo memory{kTotal, 8LL << 30};
  CHECK_FALSE(memory_shortage(8LL << 30, memory));
  const auto shortage = memory_shortage(30LL << 30, memory);
  REQUIRE(shortage);
  CHECK(*shortage ==
        "takes 30.00 GiB of memory, but only 8.00 GiB of 15.26 GiB are available here");
  CHECK_FALSE(memory_shortage(1LL << 60, MemoryInfo{}));  // the machine does not report its memory
}
