// Checks for jobs on GPUs. All checks are skipped if the plan computes on the host. The checks for
// NCCL are also skipped if the plan's collectives use gloo.
#include <algorithm>

#include "am/base/text.h"
#include "am/base/units.h"
#include "am/config/backend.h"
#include "am/launch/doctor/doctor_checks.h"
#include "am/launch/environment/nccl.h"

namespace am::launch {
namespace {

// GPU memory of a rank that predictions omit: the CUDA context, NCCL's buffers, and bytes that
// PyTorch's allocator adds by rounding.
constexpr int64_t kOverheadBytes = 1536LL << 20;

const char* const kNoGpu = "the plan runs on the CPU";

const char* const kNoNccl = "the plan's collectives use gloo, through host memory";

bool on_gpus(const JobNeeds& needs) { return !config::computes_on_host(needs.backend); }
bool over_nccl(const JobNeeds& needs) { return !config::runs_without_nccl(needs.backend); }
// Returns the reason why checks for NCCL are skipped.
const char* no_nccl(const JobNeeds& needs) { return on_gpus(needs) ? kNoNccl : kNoGpu; }

bool is_number(const std::string& text) {
  return text.find_first_not_of("0123456789") == std::string::npos;
}

using Entries = std::vector<std::string>;

// Returns the valid entries of CUDA_VISIBLE_DEVICES; nullopt if it is not set. CUDA ignores
// CUDA_VISIBLE_DEVICES from the first invalid entry on.
std::optional<Entries> visible_entries(const Machine& machine) {
  const auto count = static_cast<int64_t>(machine.gpus.gpus.size());
  const auto listed = machine.environment("CUDA_VISIBLE_DEVICES");
  if (!listed) return std::nullopt;
  Entries entries;
  for (const std::string& entry : split(*listed, ',')) {
    const std::string name(trim(entry));
    if (name.empty() || name.front() == '-') break;
    if (is_number(name) && (name.size() > 4 || std::stoll(name) >= count)) break;
    entries.push_back(name);
  }
  return entries;
}

// Returns how many of the driver's GPUs a process sees.
int64_t visible_gpus(const Machine& machine) {
  const size_t count = machine.gpus.gpus.size();
  const auto entries = visible_entries(machine);
  return static_cast<int64_t>(entries ? std::min(entries->size(), count) : count);
}

// Returns the GPUs that a process may see. Returns all GPUs if CUDA_VISIBLE_DEVICES is not set, or
// if its entries cannot be mapped to the driver's numbers, for example because an entry is a UUID.
// CUDA numbers the GPUs as the driver does if all GPUs are alike, or if CUDA_DEVICE_ORDER is
// PCI_BUS_ID; otherwise CUDA's first GPU is the fastest.
std::vector<Gpu> candidate_gpus(const Machine& machine) {
  const std::vector<Gpu>& all = machine.gpus.gpus;
  const auto entries = visible_entries(machine);
  const bool alike = std::all_of(all.begin(), all.end(),
                                 [&](const Gpu& gpu) { return gpu.name == all.front().name; });
  const bool by_bus = machine.environment("CUDA_DEVICE_ORDER") == "PCI_BUS_ID";
  if (!entries || !std::all_of(entries->begin(), entries->end(), is_number)) return all;
  if (!alike && !by_bus && !entries->empty()) return all;
  std::vector<Gpu> seen;
  for (const std::string& entry : *entries) seen.push_back(all[std::stoull(entry)]);
  return seen;
}

Check check_driver(const JobNeeds& needs, const Machine& machine) {
  if (!on_gpus(needs)) return skipped(kNoGpu);
  if (machine.gpus.driver_version.empty()) {
    return error(machine.gpus.problem.empty() ? "the version is unknown" : machine.gpus.problem,
                 "install NVIDIA's driver; in a container: --gpus all");
  }
  return ok(machine.gpus.driver_version);
}

// Returns the largest number of this machine's ranks that share one GPU.
int64_t ranks_a_gpu(const JobNeeds& needs, int64_t gpus) {
  return gpus == 0 ? needs.ranks_here : (needs.ranks_here + gpus - 1) / gpus;
}

Check check_gpus(const JobNeeds& needs, const Machine& machine) {
  if (!on_gpus(needs)) return skipped(kNoGpu);
  const int64_t visible = visible_gpus(machine);
  const int64_t sharing = ranks_a_gpu(needs, visible);
  if (visible == 0 || (over_nccl(needs) && sharing > needs.ranks_per_gpu)) {
    const auto all = static_cast<int64_t>(machine.gpus.gpus.size());
    return error(
        cat(count_text(visible, "GPU"), visible < all ? " visible" : "", " for ",
            count_text(needs.ranks_here, "rank"),
            visible == 0               ? ""
            : needs.ranks_per_gpu == 1 ? ": each rank needs its own"
                                       : cat(", at most ", needs.ranks_per_gpu, " per GPU")),
        visible < all
            ? cat("CUDA_VISIBLE_DEVICES=", *machine.environment("CUDA_VISIBLE_DEVICES"), " hides ",
                  all - visible, " of ", all, " GPUs: unset it, or use fewer ranks")
        : all == 0 ? "run on a machine with GPUs, or set backend = \"gloo\""
                   : "use fewer ranks on this machine (--nproc), or more machines (--nnodes), or "
                     "let ranks share GPUs (backend = \"cuda:gloo\")");
  }
  const std::string text = cat(visible, " x ", machine.gpus.gpus.front().name);
  return ok(sharing == 1 ? text : cat(text, ", ", sharing, " ranks per GPU"));
}

// Checks that NVIDIA's multi-process service (MPS) is available if ranks share a GPU. Skipped
// without NCCL, because ranks then wait for each other on the host, not in kernels that occupy the
// GPU.
Check check_sharing(const JobNeeds& needs, const Machine& machine) {
  if (!over_nccl(needs)) return skipped(no_nccl(needs));
  if (needs.ranks_per_gpu == 1 || ranks_a_gpu(needs, visible_gpus(machine)) == 1) {
    return ok("each rank has its own GPU");
  }
  if (machine.has_mps) return ok("nvidia-cuda-mps-control is installed: start it before the job");
  return warning(
      "no nvidia-cuda-mps-control: only one rank of a GPU computes at a time, so each message "
      "waits until its receiver is scheduled",
      "install NVIDIA's multi-process service, or use backend = \"cuda:gloo\"");
}

Check check_gpu_memory(const JobNeeds& needs, const Machine& machine) {
  if (!on_gpus(needs)) return skipped(kNoGpu);
  const std::vector<Gpu> gpus = candidate_gpus(machine);
  if (gpus.empty()) return error("no GPU is visible", "");
  const auto smallest = std::min_element(gpus.begin(), gpus.end(), [](const Gpu& a, const Gpu& b) {
    return a.memory_bytes < b.memory_bytes;
  });
  int64_t free = smallest->free_bytes;
  for (const Gpu& gpu : gpus) free = std::min(free, gpu.free_bytes);
  const int64_t sharing = ranks_a_gpu(needs, visible_gpus(machine));
  const int64_t peak = sharing * needs.peak_bytes;
  const int64_t overhead = sharing * kOverheadBytes;
  const std::string wanted =
      cat(format_bytes(peak), " predicted for ",
          sharing == 1 ? "the worst rank" : cat(sharing, " ranks of one GPU"), ", ",
          format_bytes(smallest->memory_bytes), " on the GPU");
  const char* const smaller =
      "use more sharding, or a smaller micro_batch_size or seq_len: see am-plan memory";
  if (peak > smallest->memory_bytes) return error(wanted, smaller);
  if (peak + overhead > smallest->memory_bytes) {
    return warning(cat(wanted, ": little is left for CUDA and NCCL"), smaller);
  }
  if (peak + overhead > free) {
    return warning(cat(wanted, ", ", format_bytes(free), " of it free"),
                   "another process may use the GPU: nvidia-smi shows which");
  }
  return ok(wanted);
}

Check check_nccl(const JobNeeds& needs, const Machine& machine) {
  if (!over_nccl(needs)) return skipped(no_nccl(needs));
  if (!machine.nccl_version) {
    return error(machine.nccl_problem,
                 "install the NCCL that libtorch was built with, e.g. the wheel nvidia-nccl-cu12");
  }
  const int version = *machine.nccl_version;
  const std::string text = nccl_version_name(version);
  constexpr int kSplits = 21800;
  if (needs.ranks_per_gpu > 1 && version < kFirstNcclWithSharedGpus) {
    return error(cat(text, " allows one rank per GPU"),
                 "load NCCL 2.30 or newer (LD_PRELOAD=DIR/libnccl.so.2), or use backend = "
                 "\"cuda:gloo\"");
  }
  if (version < kSplits) {
    return warning(cat(text, " is older than what libtorch's process groups expect"),
                   "install NCCL 2.18 or newer, which can split communicators and abort a "
                   "collective that hangs");
  }
  return ok(text);
}

Check check_connections(const JobNeeds& needs, const Machine& machine) {
  if (!over_nccl(needs)) return skipped(no_nccl(needs));
  const std::string value = machine.environment("CUDA_DEVICE_MAX_CONNECTIONS").value_or("");
  const std::string text = value.empty() ? "not set" : value;
  if (needs.shards_parameters && value == "1") {
    return warning("1: FSDP's gathers wait for the computation that they should overlap",
                   "unset it");
  }
  const bool old =
      std::any_of(machine.gpus.gpus.begin(), machine.gpus.gpus.end(),
                  [](const Gpu& gpu) { return gpu.compute_major > 0 && gpu.compute_major < 10; });
  if (!needs.shards_parameters && needs.cuts_layers && old && value != "1") {
    return warning(cat(text,
                       ": before Blackwell, overlapping tensor- and context-parallel "
                       "communication depends on the order of launches"),
                   "set CUDA_DEVICE_MAX_CONNECTIONS=1");
  }
  return ok(text);
}

Check check_shm(const JobNeeds& needs, const Machine& machine) {
  if (!over_nccl(needs)) return skipped(no_nccl(needs));
  if (needs.ranks_here == 1) return skipped("one rank on this machine");
  constexpr int64_t kComfort = 1LL << 30;
  constexpr int64_t kLeastPerRank = 32LL << 20;
  const char* const larger = "in a container: --shm-size=1g or more, or --ipc=host";
  if (!machine.shm) return error("there is no /dev/shm", larger);
  const std::string text =
      cat(format_bytes(machine.shm->available), " free of ", format_bytes(machine.shm->total));
  if (machine.shm->available < kLeastPerRank * needs.ranks_here) {
    return error(
        cat(text, ": too little for NCCL's buffers between ", count_text(needs.ranks_here, "rank")),
        larger);
  }
  if (machine.shm->available < kComfort) return warning(text, larger);
  return ok(text);
}

Check check_locked_memory(const JobNeeds& needs, const Machine& machine) {
  if (!over_nccl(needs)) return skipped(no_nccl(needs));
  if (needs.num_nodes == 1) return skipped("one machine: no network to register memory for");
  if (machine.infiniband_devices == 0) return skipped("no InfiniBand device");
  if (machine.limits.locked_bytes) {
    return warning(cat("at most ", format_bytes(*machine.limits.locked_bytes),
                       ": InfiniBand registers its buffers in locked memory"),
                   "ulimit -l unlimited; in a container --ulimit memlock=-1");
  }
  return ok("unlimited");
}

}  // namespace

std::vector<NamedCheck> gpu_checks() {
  return {{"driver", check_driver},       {"GPUs", check_gpus},
          {"GPU sharing", check_sharing}, {"GPU memory", check_gpu_memory},
          {"NCCL", check_nccl},           {"CUDA_DEVICE_MAX_CONNECTIONS", check_connections},
          {"shared memory", check_shm},   {"locked memory", check_locked_memory}};
}

}  // namespace am::launch
