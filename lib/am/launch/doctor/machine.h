// What this machine has, as far as it decides whether a job can run here. Facts only: doctor.h
// judges them.
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

// The soft limits of a process; nothing: unlimited.
struct Limits {
  std::optional<int64_t> open_files;
  std::optional<int64_t> processes;
  std::optional<int64_t> locked_bytes;
};

struct ClockFacts {
  int year = 0;                      // of the wall clock, UTC
  std::optional<bool> synchronized;  // as the kernel says; nothing where it may not be asked
};

struct Machine {
  EnvironmentLookup environment;
  int64_t cores = 1;          // that this process may use
  Space memory;               // of the machine, or of the control group where that is smaller
  std::optional<Space> shm;   // /dev/shm; nothing: there is none
  std::optional<Space> disk;  // where the run folder is or will be
  Limits limits;
  ClockFacts clock;
  GpuReport gpus;
  std::optional<int> nccl_version;  // 22703 for 2.27.3
  std::string nccl_problem;         // why it is not known
  bool has_mps = false;             // nvidia-cuda-mps-control is in PATH
  int64_t infiniband_devices = 0;
  std::string address_problem;  // why the rendezvous address is none; empty: it is one
  std::string port_problem;     // why its port cannot be served; empty: it can, or was not asked
};

struct MachineQuestion {
  std::filesystem::path run_folder;
  std::string master_addr = "127.0.0.1";
  int master_port = 0;  // to be served by this machine; 0: not asked
};

// Where the facts come from. Tests put their own in the place of any.
struct MachineSources {
  EnvironmentLookup environment = process_environment();
  std::filesystem::path root = "/";  // of proc/, sys/ and dev/
  std::string nvml = "libnvidia-ml.so.1";
  std::vector<std::string> nccl = {"libnccl.so.2"};                         // the first that loads
  std::function<std::optional<Space>(const std::filesystem::path&)> space;  // of a file system
  std::function<Limits()> limits;
  std::function<ClockFacts()> clock;
};

// Never throws: what cannot be found out is left out.
Machine gather_machine(const MachineQuestion& question, const MachineSources& sources = {});

}  // namespace am::launch
