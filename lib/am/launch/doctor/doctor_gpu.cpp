// Checks of what a job on GPUs needs. All are skipped where the collectives are gloo's.
#include <algorithm>

#include "am/base/text.h"
#include "am/base/units.h"
#include "am/launch/doctor/doctor_checks.h"

namespace am::launch {
namespace {

// Outside of what the planner predicts: the CUDA context, NCCL's buffers, the allocator's rounding.
constexpr int64_t kOverheadBytes = 1536LL << 20;

const char* const kNoGpu = "the plan runs on the CPU";

bool on_gpus(const JobNeeds& needs) { return needs.backend == "nccl"; }

// How many of the driver's GPUs a process sees: CUDA stops at the first entry that names none.
int64_t visible_gpus(const Machine& machine) {
  const auto count = static_cast<int64_t>(machine.gpus.gpus.size());
  const auto listed = machine.environment("CUDA_VISIBLE_DEVICES");
  if (!listed) return count;
  int64_t visible = 0;
  for (const std::string& entry : split(*listed, ',')) {
    const std::string name(trim(entry));
    if (name.empty() || name.front() == '-') break;
    const bool number = name.find_first_not_of("0123456789") == std::string::npos;
    if (number && (name.size() > 4 || std::stoll(name) >= count)) break;
    ++visible;
  }
  return std::min(visible, count);
}

Check check_driver(const JobNeeds& needs, const Machine& machine) {
  if (!on_gpus(needs)) return skipped(kNoGpu);
  if (machine.gpus.driver_version.empty()) {
    return error(machine.gpus.problem.empty() ? "no version" : machine.gpus.problem,
                 "install NVIDIA's driver; in a container, start it with the GPUs (--gpus all)");
  }
  return ok(machine.gpus.driver_version);
}

Check check_gpus(const JobNeeds& needs, const Machine& machine) {
  if (!on_gpus(needs)) return skipped(kNoGpu);
  const int64_t visible = visible_gpus(machine);
  if (visible < needs.ranks_here) {
    const auto all = static_cast<int64_t>(machine.gpus.gpus.size());
    return error(cat(count_text(visible, "GPU"), visible < all ? " visible" : "", " for ",
                     count_text(needs.ranks_here, "rank"), ": each rank needs its own"),
                 visible < all
                     ? cat("CUDA_VISIBLE_DEVICES=", *machine.environment("CUDA_VISIBLE_DEVICES"),
                           " hides ", all - visible, " of ", all)
                     : "use fewer ranks on this machine (--nproc), or more machines (--nnodes)");
  }
  return ok(cat(visible, " x ", machine.gpus.gpus.front().name));
}

Check check_gpu_memory(const JobNeeds& needs, const Machine& machine) {
  if (!on_gpus(needs)) return skipped(kNoGpu);
  if (machine.gpus.gpus.empty()) return error("there is no GPU", "");
  const auto smallest =
      std::min_element(machine.gpus.gpus.begin(), machine.gpus.gpus.end(),
                       [](const Gpu& a, const Gpu& b) { return a.memory_bytes < b.memory_bytes; });
  int64_t free = smallest->free_bytes;
  for (const Gpu& gpu : machine.gpus.gpus) free = std::min(free, gpu.free_bytes);
  const std::string wanted = cat(format_bytes(needs.peak_bytes), " predicted for the worst rank, ",
                                 format_bytes(smallest->memory_bytes), " there");
  const char* const smaller =
      "more sharding, a smaller micro_batch_size or seq_len: see am-plan memory";
  if (needs.peak_bytes > smallest->memory_bytes) return error(wanted, smaller);
  if (needs.peak_bytes + kOverheadBytes > smallest->memory_bytes) {
    return warning(cat(wanted, ": little is left for CUDA and NCCL"), smaller);
  }
  if (needs.peak_bytes + kOverheadBytes > free) {
    return warning(cat(wanted, ", ", format_bytes(free), " of it free"),
                   "another process uses the GPU: nvidia-smi shows which");
  }
  return ok(wanted);
}

Check check_nccl(const JobNeeds& needs, const Machine& machine) {
  if (!on_gpus(needs)) return skipped(kNoGpu);
  if (!machine.nccl_version) {
    return error(machine.nccl_problem,
                 "install the NCCL that libtorch was built with, e.g. the wheel nvidia-nccl-cu12");
  }
  const int version = *machine.nccl_version;
  // Up to 2.8 the number was 2 8 04, since then it is 2 09 06.
  const int major = version / (version < 10000 ? 1000 : 10000);
  const int minor = version / 100 % (version < 10000 ? 10 : 100);
  const std::string text = cat(major, ".", minor, ".", version % 100);
  if (major < 2 || (major == 2 && minor < 18)) {
    return warning(cat(text, " is older than what libtorch's groups expect"),
                   "NCCL 2.18 can split communicators and end a collective that hangs");
  }
  return ok(text);
}

Check check_connections(const JobNeeds& needs, const Machine& machine) {
  if (!on_gpus(needs)) return skipped(kNoGpu);
  const std::string value = machine.environment("CUDA_DEVICE_MAX_CONNECTIONS").value_or("");
  const std::string text = value.empty() ? "not set" : value;
  if (needs.shards_parameters && value == "1") {
    return warning("1: FSDP's gathers wait behind the computation that they should overlap",
                   "unset it");
  }
  const bool old =
      std::any_of(machine.gpus.gpus.begin(), machine.gpus.gpus.end(),
                  [](const Gpu& gpu) { return gpu.compute_major > 0 && gpu.compute_major < 10; });
  if (!needs.shards_parameters && needs.cuts_layers && old && value != "1") {
    return warning(cat(text,
                       ": before Blackwell, overlapping tensor- and context-parallel "
                       "communication depends on the order of launches"),
                   "CUDA_DEVICE_MAX_CONNECTIONS=1");
  }
  return ok(text);
}

Check check_shm(const JobNeeds& needs, const Machine& machine) {
  if (!on_gpus(needs) || needs.ranks_here == 1) {
    return skipped(on_gpus(needs) ? "one rank on this machine" : kNoGpu);
  }
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
  if (!on_gpus(needs)) return skipped(kNoGpu);
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
  return {{"driver", check_driver},
          {"GPUs", check_gpus},
          {"GPU memory", check_gpu_memory},
          {"NCCL", check_nccl},
          {"CUDA_DEVICE_MAX_CONNECTIONS", check_connections},
          {"shared memory", check_shm},
          {"locked memory", check_locked_memory}};
}

}  // namespace am::launch
