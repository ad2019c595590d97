// Gathers facts about this machine. The checks of doctor.h decide from these facts whether a job
// can run here.
//
//   const Machine machine = gather_machine({.run_folder = run.root()});
//   machine.memory.available;      // bytes
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "am/launch/doctor/memory_fit.h"
#include "am/launch/doctor/nvml.h"
#include "am/launch/environment/environment.h"

namespace am::launch {

// Limits of this process; nullopt means unlimited or unknown. `open_files` is the hard limit,
// because launchers and ranks raise their soft limit of open files. `processes` and `locked_bytes`
// are soft limits.
struct Limits {
  std::optional<int64_t> open_files;
  std::optional<int64_t> processes;
  std::optional<int64_t> locked_bytes;
};

struct ClockFacts {
  int year = 0;                      // year of the wall clock, in UTC
  std::optional<bool> synchronized;  // whether the kernel reports a synchronized clock
};

struct Machine {
  EnvironmentLookup environment;
  int64_t cores = 1;               // number of CPU cores that this process may use
  MemoryInfo memory;               // RAM of the machine, or the control group's limit if smaller
  std::optional<MemoryInfo> shm;   // space in /dev/shm; nothing if /dev/shm does not exist
  std::optional<MemoryInfo> disk;  // space of the file system on which the run folder is or will be
  Limits limits;
  ClockFacts clock;
  GpuReport gpus;
  // Version number as ncclGetVersion returns it, for example 22703 for 2.27.3; nothing: unknown.
  std::optional<int> nccl_version;
  std::string nccl_problem;  // why nccl_version is unknown
  bool has_mps = false;      // nvidia-cuda-mps-control is in PATH
  int64_t infiniband_devices = 0;
  // Why the rendezvous address cannot be resolved; empty if it can be resolved.
  std::string address_problem;
  // Why this machine cannot listen on master_port; empty if it can, or if no port was checked.
  std::string port_problem;
};

// The job's files and addresses that gather_machine() checks.
struct MachineQuestion {
  std::filesystem::path run_folder;
  std::string master_addr = "127.0.0.1";
  int master_port = 0;  // port on which this machine will listen; 0: no port is checked
};

// Sources of the facts. Tests replace the defaults.
struct MachineSources {
  EnvironmentLookup environment = process_environment();
  std::filesystem::path root = "/";  // folder that contains proc/, sys/ and dev/
  std::string nvml = "libnvidia-ml.so.1";
  // File names of NCCL's library. They are loaded in this order until a library reports a version.
  std::vector<std::string> nccl = {"libnccl.so.2"};
  // `space` returns the size and the free space of a path's file system. If `space`, `limits` or
  // `clock` is null, the kernel is queried instead.
  std::function<std::optional<MemoryInfo>(const std::filesystem::path&)> space;
  std::function<Limits()> limits;
  std::function<ClockFacts()> clock;
};

// Gathers the facts about this machine. Never throws: unknown facts keep the defaults of Machine.
Machine gather_machine(const MachineQuestion& question, const MachineSources& sources = {});

}  // namespace am::launch
