// Gathers the facts about this machine that decide whether a job can run on it, for the checks of
// doctor.h.
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

// Limits of this process; nullopt means unlimited. `open_files` is the hard limit, because
// launchers and ranks raise their soft limit to the hard limit; `processes` and `locked_bytes` are
// soft limits.
struct Limits {
  std::optional<int64_t> open_files;
  std::optional<int64_t> processes;
  std::optional<int64_t> locked_bytes;
};

struct ClockFacts {
  int year = 0;                      // year of the wall clock, in UTC
  std::optional<bool> synchronized;  // according to the kernel; nothing: unknown
};

struct Machine {
  EnvironmentLookup environment;
  int64_t cores = 1;               // number of CPU cores that this process may use
  MemoryInfo memory;               // RAM of the machine, or the control group's limit if smaller
  std::optional<MemoryInfo> shm;   // space of /dev/shm; nothing: it does not exist
  std::optional<MemoryInfo> disk;  // space of the file system on which the run folder is or will be
  Limits limits;
  ClockFacts clock;
  GpuReport gpus;
  // Version number as ncclGetVersion returns it, for example 22703 for 2.27.3; nothing: unknown.
  std::optional<int> nccl_version;
  std::string nccl_problem;  // why nccl_version is unknown
  bool has_mps = false;      // nvidia-cuda-mps-control is in PATH
  int64_t infiniband_devices = 0;
  std::string address_problem;  // why the rendezvous address cannot be resolved; empty: it can
  std::string port_problem;  // why listening on master_port fails; empty: it works or is unchecked
};

struct MachineQuestion {
  std::filesystem::path run_folder;
  std::string master_addr = "127.0.0.1";
  int master_port = 0;  // port on which this machine will listen; 0: no port is checked
};

// Sources from which the facts are gathered; tests replace them.
struct MachineSources {
  EnvironmentLookup environment = process_environment();
  std::filesystem::path root = "/";  // folder that contains proc/, sys/ and dev/
  std::string nvml = "libnvidia-ml.so.1";
  // Libraries that are loaded, in this order, until one reports NCCL's version.
  std::vector<std::string> nccl = {"libnccl.so.2"};
  // Returns the size and free space of a path's file system. If `space`, `limits` or `clock` is
  // null, the kernel is queried instead.
  std::function<std::optional<MemoryInfo>(const std::filesystem::path&)> space;
  std::function<Limits()> limits;
  std::function<ClockFacts()> clock;
};

// Gathers the facts about this machine. Never throws: unknown facts keep the defaults of Machine.
Machine gather_machine(const MachineQuestion& question, const MachineSources& sources = {});

}  // namespace am::launch
