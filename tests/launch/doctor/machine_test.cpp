#include "am/launch/doctor/machine.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <fstream>

#include "am/launch/environment/port.h"
#include "support/folders.h"
#include "support/temporary_folder.h"

using namespace am::launch;

namespace {

// Returns the sources for a machine without NVML and NCCL, with `root` as the root of its files.
MachineSources sources_below(const std::filesystem::path& root) {
  MachineSources sources;
  sources.root = root;
  sources.nvml = "/nonexistent/libnvidia-ml.so.1";
  sources.nccl = {"/nonexistent/libnccl.so.2"};
  return sources;
}

const char* const kMeminfo =
    "MemTotal:       16000000 kB\nMemFree:         100 kB\nMemAvailable:    8000000 kB\n";

}  // namespace

TEST_CASE("the real machine tells what every machine has") {
  const TemporaryFolder folder;
  const Machine machine = gather_machine({.run_folder = folder / "runs/not/there/yet"});
  CHECK(machine.cores >= 1);
  CHECK(machine.memory.total > 0);
  CHECK(machine.memory.available <= machine.memory.total);
  REQUIRE(machine.disk);
  CHECK(machine.disk->total > 0);
  CHECK(machine.clock.year >= 2024);
  CHECK(machine.address_problem.empty());
}

TEST_CASE("a container's limit is its memory") {
  const TemporaryFolder folder;
  write_text(folder / "proc/meminfo", kMeminfo);
  const auto memory = [&] { return gather_machine({}, sources_below(folder.path())).memory; };
  CHECK(memory().total == 16000000LL * 1024);
  CHECK(memory().available == 8000000LL * 1024);
  write_text(folder / "sys/fs/cgroup/memory.max", "max\n");
  CHECK(memory().total == 16000000LL * 1024);
  write_text(folder / "sys/fs/cgroup/memory.max", "4000000\n");
  write_text(folder / "sys/fs/cgroup/memory.current", "1000000\n");
  CHECK(memory().total == 4000000);
  CHECK(memory().available == 3000000);
}

TEST_CASE("what the sources say is what the machine has") {
  const TemporaryFolder folder;
  std::filesystem::create_directories(folder / "sys/class/infiniband/mlx5_0");
  MachineSources sources = sources_below(folder.path());
  sources.space = [](const std::filesystem::path& path) -> std::optional<MemoryInfo> {
    if (path.filename() == "shm") return std::nullopt;
    return MemoryInfo{100, 40};
  };
  sources.limits = [] { return Limits{1024, std::nullopt, 65536}; };
  sources.clock = [] { return ClockFacts{1970, false}; };
  sources.environment = [](const std::string& name) -> std::optional<std::string> {
    return "value of " + name;
  };
  const Machine machine = gather_machine({.run_folder = folder / "a/b"}, sources);
  CHECK_FALSE(machine.shm);
  CHECK(machine.disk->available == 40);
  CHECK(machine.limits.open_files == 1024);
  CHECK_FALSE(machine.limits.processes);
  CHECK(machine.clock.year == 1970);
  CHECK(machine.infiniband_devices == 1);
  CHECK(machine.environment("X") == "value of X");
}

TEST_CASE("the multi-process service is looked for in PATH") {
  const TemporaryFolder folder;
  MachineSources sources = sources_below(folder.path());
  sources.environment = [&](const std::string& name) -> std::optional<std::string> {
    if (name != "PATH") return std::nullopt;
    return "/nonexistent:" + folder.path().string();
  };
  CHECK_FALSE(gather_machine({}, sources).has_mps);
  const auto program = folder / "nvidia-cuda-mps-control";
  std::ofstream(program) << "#!/bin/sh\n";
  CHECK_FALSE(gather_machine({}, sources).has_mps);
  std::filesystem::permissions(program, std::filesystem::perms::owner_all);
  CHECK(gather_machine({}, sources).has_mps);
}

TEST_CASE("GPUs are asked from the driver's library") {
  const GpuReport report = ask_nvml(am::cat(am::test::kPluginFolder, "/fake_nvml.so"));
  CHECK(report.problem.empty());
  CHECK(report.driver_version == "550.54.15");
  REQUIRE(report.gpus.size() == 2);
  CHECK(report.gpus[0].name == "Test GPU 0");
  CHECK(report.gpus[0].memory_bytes == 80LL << 30);
  CHECK(report.gpus[1].free_bytes == 1LL << 30);
  CHECK(report.gpus[1].compute_major == 9);
  const GpuReport none = ask_nvml("/nonexistent/libnvidia-ml.so.1");
  CHECK_THAT(none.problem, Catch::Contains("cannot load"));
  CHECK(none.gpus.empty());
  // A library that is not NVML.
  CHECK_THAT(ask_nvml(am::cat(am::test::kPluginFolder, "/fake_nccl.so")).problem,
             Catch::Contains("nvmlInit_v2"));
}

TEST_CASE("NCCL's version is asked from the first library that loads") {
  MachineSources sources;
  sources.nvml = "/nonexistent/libnvidia-ml.so.1";
  sources.nccl = {"/nonexistent/libnccl.so.2", am::cat(am::test::kPluginFolder, "/fake_nccl.so")};
  Machine machine = gather_machine({}, sources);
  CHECK(machine.nccl_version == 22703);
  CHECK(machine.nccl_problem.empty());
  sources.nccl.pop_back();
  machine = gather_machine({}, sources);
  CHECK_FALSE(machine.nccl_version);
  CHECK_THAT(machine.nccl_problem, Catch::Contains("libnccl.so.2"));
  sources.nccl = {am::cat(am::test::kPluginFolder, "/fake_nvml.so")};
  CHECK_THAT(gather_machine({}, sources).nccl_problem, Catch::Contains("does not report"));
}

TEST_CASE("a port that is taken, and an address that is none") {
  CHECK(port_problem(free_port()).empty());
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  REQUIRE(::bind(fd, generic, size) == 0);
  REQUIRE(::listen(fd, 1) == 0);
  REQUIRE(::getsockname(fd, generic, &size) == 0);
  CHECK_THAT(port_problem(ntohs(address.sin_port)), Catch::Contains("in use"));
  ::close(fd);
  CHECK(address_problem("127.0.0.1").empty());
  CHECK_FALSE(address_problem("999.0.0.1.").empty());
}
