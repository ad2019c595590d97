// Runs each check of am-run doctor on synthetic facts: on a machine that passes the check, and on
// one that fails it.
#include "am/launch/doctor/doctor.h"

#include <catch2/catch.hpp>
#include <map>
#include <set>

using namespace am::launch;

namespace {

constexpr int64_t kGiB = 1LL << 30;

using Variables = std::map<std::string, std::string>;

EnvironmentLookup lookup(const Variables& variables) {
  return [variables](const std::string& name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    if (found == variables.end()) return std::nullopt;
    return found->second;
  };
}

// Returns a node with eight GPUs on which every check passes.
Machine good_machine() {
  Machine machine;
  machine.environment = lookup({});
  machine.cores = 64;
  machine.memory = {512 * kGiB, 500 * kGiB};
  machine.shm = MemoryInfo{256 * kGiB, 256 * kGiB};
  machine.disk = MemoryInfo{4096 * kGiB, 2048 * kGiB};
  machine.clock = {2026, true};
  machine.gpus.driver_version = "550.54.15";
  machine.gpus.gpus.assign(8, Gpu{"Test GPU", 80 * kGiB, 79 * kGiB, 9});
  machine.nccl_version = 22703;
  machine.infiniband_devices = 8;
  return machine;
}

// Returns the requirements of a job with sixteen ranks on two nodes like good_machine().
JobNeeds gpu_job() {
  JobNeeds needs;
  needs.backend = "nccl";
  needs.shards_parameters = true;
  needs.cuts_layers = true;
  needs.world_size = 16;
  needs.given_world_size = 16;
  needs.ranks_here = 8;
  needs.num_nodes = 2;
  needs.peak_bytes = 60 * kGiB;
  needs.checkpoint_bytes = 100 * kGiB;
  needs.checkpoints_kept = 2;
  needs.master_addr = "node0";
  needs.master_port = 29500;
  needs.torch_version = "2.11.0";
  return needs;
}

JobNeeds cpu_job() {
  JobNeeds needs = gpu_job();
  needs.backend = "gloo";
  needs.world_size = needs.given_world_size = 8;
  needs.num_nodes = 1;
  needs.peak_bytes = 10 * kGiB;
  return needs;
}

Check check_of(const std::string& name, const JobNeeds& needs, const Machine& machine) {
  for (const Check& check : examine(needs, machine)) {
    if (check.name == name) return check;
  }
  FAIL("no check is named " << name);
  return {};
}

CheckStatus status_of(const std::string& name, const JobNeeds& needs, const Machine& machine) {
  const Check check = check_of(name, needs, machine);
  INFO(check.message);
  CHECK_FALSE(check.message.empty());
  const bool bad = check.status == CheckStatus::kError || check.status == CheckStatus::kWarning;
  CHECK(check.help.empty() == !bad);  // failed checks, and only these, have a help text
  return check.status;
}

}  // namespace

TEST_CASE("a good machine is good, for every check") {
  const auto checks = examine(gpu_job(), good_machine());
  std::set<std::string> names;
  for (const Check& check : checks) {
    INFO(check.name << ": " << check.message);
    names.insert(check.name);
    CHECK((check.status == CheckStatus::kOk || check.name == "memory"));
  }
  CHECK(names.size() == checks.size());
  CHECK(is_healthy(checks));
  const am::Json json = to_json(checks);
  CHECK(json["ok"] == true);
  CHECK(json["checks"].size() == checks.size());
  CHECK(json["checks"][0]["name"] == "world size");
  CHECK(json["checks"][0]["status"] == "ok");
}

TEST_CASE("nothing about GPUs is asked of a plan for the CPU") {
  Machine machine = good_machine();
  machine.gpus = {"no driver", "", {}};
  machine.nccl_version.reset();
  machine.shm.reset();
  for (const char* name : {"driver", "GPUs", "GPU sharing", "GPU memory", "NCCL",
                           "CUDA_DEVICE_MAX_CONNECTIONS", "shared memory", "locked memory"}) {
    CHECK(status_of(name, cpu_job(), machine) == CheckStatus::kSkipped);
  }
  CHECK(is_healthy(examine(cpu_job(), machine)));
}

TEST_CASE("the launcher's world must be the plan's") {
  JobNeeds needs = gpu_job();
  needs.given_world_size = 8;
  CHECK(status_of("world size", needs, good_machine()) == CheckStatus::kError);
  CHECK_FALSE(is_healthy(examine(needs, good_machine())));
  needs.given_world_size = 0;
  CHECK(status_of("world size", needs, good_machine()) == CheckStatus::kOk);
}

TEST_CASE("launchers' variables that were left over") {
  Machine machine = good_machine();
  const auto status = [&](const Variables& variables) {
    machine.environment = lookup(variables);
    return status_of("launcher's variables", gpu_job(), machine);
  };
  CHECK(status({{"RANK", "1"}}) == CheckStatus::kError);
  CHECK(status({{"MASTER_PORT", "29500"}}) == CheckStatus::kWarning);
  CHECK(status({{"RANK", "0"}, {"WORLD_SIZE", "1"}}) == CheckStatus::kWarning);
  CHECK(status({}) == CheckStatus::kOk);
}

TEST_CASE("the rendezvous has an address and a free port") {
  Machine machine = good_machine();
  machine.address_problem = "Name or service not known";
  CHECK(status_of("rendezvous address", gpu_job(), machine) == CheckStatus::kError);
  machine.port_problem = "Address already in use";
  CHECK(status_of("rendezvous port", gpu_job(), machine) == CheckStatus::kError);
  JobNeeds needs = gpu_job();
  needs.serves_port = false;
  CHECK(status_of("rendezvous port", needs, machine) == CheckStatus::kSkipped);
  needs.master_port = 0;
  CHECK(status_of("rendezvous port", needs, machine) == CheckStatus::kOk);
}

TEST_CASE("an old libtorch, and one that does not say") {
  JobNeeds needs = gpu_job();
  for (const char* version : {"", "2.5.1", "1.13"}) {
    needs.torch_version = version;
    CHECK(status_of("libtorch", needs, good_machine()) == CheckStatus::kWarning);
  }
  needs.torch_version = "2.12.0";
  CHECK(status_of("libtorch", needs, good_machine()) == CheckStatus::kOk);
}

TEST_CASE("a GPU for each rank") {
  Machine machine = good_machine();
  machine.gpus.gpus.resize(4);
  CHECK(status_of("GPUs", gpu_job(), machine) == CheckStatus::kError);
  machine = good_machine();
  machine.environment = lookup({{"CUDA_VISIBLE_DEVICES", "0,1,2,3"}});
  CHECK_THAT(check_of("GPUs", gpu_job(), machine).help, Catch::Contains("hides 4 of 8"));
  // CUDA ignores all entries after the first one that is not a GPU.
  machine.environment = lookup({{"CUDA_VISIBLE_DEVICES", "0,1,2,3,4,9,5,6,7"}});
  CHECK(status_of("GPUs", gpu_job(), machine) == CheckStatus::kError);
  machine.environment = lookup({{"CUDA_VISIBLE_DEVICES", "7,6,5,4,3,2,1,0"}});
  CHECK(status_of("GPUs", gpu_job(), machine) == CheckStatus::kOk);
}

TEST_CASE("ranks share GPUs where their messages go through host memory") {
  Machine machine = good_machine();
  machine.gpus.gpus.resize(3);
  machine.nccl_version.reset();
  machine.shm.reset();
  JobNeeds needs = gpu_job();
  needs.backend = "cuda:gloo";
  needs.peak_bytes = 20 * kGiB;
  CHECK_THAT(check_of("GPUs", needs, machine).message, Catch::Contains("3 ranks per GPU"));
  CHECK(status_of("GPUs", needs, machine) == CheckStatus::kOk);
  CHECK_THAT(check_of("GPU memory", needs, machine).message,
             Catch::Contains("60.00 GiB predicted for 3 ranks of one GPU"));
  needs.peak_bytes = 27 * kGiB;
  CHECK(status_of("GPU memory", needs, machine) == CheckStatus::kError);
  for (const char* name :
       {"GPU sharing", "NCCL", "CUDA_DEVICE_MAX_CONNECTIONS", "shared memory", "locked memory"}) {
    CHECK_THAT(check_of(name, needs, machine).message, Catch::Contains("through host memory"));
  }
  CHECK(status_of("memory", needs, machine) == CheckStatus::kSkipped);
  machine.gpus.gpus.clear();
  CHECK(status_of("GPUs", needs, machine) == CheckStatus::kError);
}

TEST_CASE("ranks share GPUs over an NCCL that can, and want the multi-process service") {
  Machine machine = good_machine();
  machine.gpus.gpus.resize(4);
  machine.nccl_version = 23007;
  machine.has_mps = true;
  JobNeeds needs = gpu_job();
  CHECK(status_of("GPUs", needs, machine) == CheckStatus::kError);
  CHECK_THAT(check_of("GPU sharing", needs, machine).message, Catch::Contains("its own GPU"));
  needs.ranks_per_gpu = 2;
  CHECK(status_of("GPUs", needs, machine) == CheckStatus::kOk);
  CHECK(status_of("GPU sharing", needs, machine) == CheckStatus::kOk);
  CHECK(status_of("NCCL", needs, machine) == CheckStatus::kOk);
  machine.has_mps = false;
  CHECK(status_of("GPU sharing", needs, machine) == CheckStatus::kWarning);
  machine.nccl_version = 22809;
  CHECK(status_of("NCCL", needs, machine) == CheckStatus::kError);
  CHECK_THAT(check_of("NCCL", needs, machine).help, Catch::Contains("cuda:gloo"));
  machine.gpus.gpus.resize(3);
  CHECK_THAT(check_of("GPUs", needs, machine).message, Catch::Contains("at most 2 per GPU"));
}

TEST_CASE("no driver") {
  Machine machine = good_machine();
  machine.gpus = {"cannot load libnvidia-ml.so.1", "", {}};
  CHECK(status_of("driver", gpu_job(), machine) == CheckStatus::kError);
  CHECK(check_of("driver", gpu_job(), machine).message == "cannot load libnvidia-ml.so.1");
  CHECK(status_of("GPUs", gpu_job(), machine) == CheckStatus::kError);
  CHECK(check_of("GPU memory", gpu_job(), machine).status == CheckStatus::kError);
}

TEST_CASE("the predicted peak against the smallest GPU") {
  const Machine machine = good_machine();
  JobNeeds needs = gpu_job();
  needs.peak_bytes = 81 * kGiB;
  CHECK(status_of("GPU memory", needs, machine) == CheckStatus::kError);
  needs.peak_bytes = 79 * kGiB;
  CHECK(status_of("GPU memory", needs, machine) == CheckStatus::kWarning);
  needs.peak_bytes = 78 * kGiB;
  Machine busy = machine;
  busy.gpus.gpus[3].free_bytes = 20 * kGiB;
  CHECK(status_of("GPU memory", needs, busy) == CheckStatus::kWarning);
  CHECK_THAT(check_of("GPU memory", needs, busy).help, Catch::Contains("nvidia-smi"));
}

TEST_CASE("the predicted peak is compared with the visible GPUs alone") {
  Machine machine = good_machine();
  machine.gpus.gpus[3].free_bytes = 20 * kGiB;
  JobNeeds needs = gpu_job();
  needs.ranks_here = 2;
  const auto status = [&](const Variables& variables) {
    machine.environment = lookup(variables);
    return status_of("GPU memory", needs, machine);
  };
  CHECK(status({}) == CheckStatus::kWarning);
  CHECK(status({{"CUDA_VISIBLE_DEVICES", "2,3"}}) == CheckStatus::kWarning);
  CHECK(status({{"CUDA_VISIBLE_DEVICES", "4,5"}}) == CheckStatus::kOk);
  CHECK(status({{"CUDA_VISIBLE_DEVICES", "GPU-4af3,GPU-77c0"}}) == CheckStatus::kWarning);
  machine.gpus.gpus[3] = {"Display GPU", 4 * kGiB, 4 * kGiB, 8};
  CHECK(status({{"CUDA_VISIBLE_DEVICES", "4,5"}}) == CheckStatus::kError);
  CHECK(status({{"CUDA_VISIBLE_DEVICES", "4,5"}, {"CUDA_DEVICE_ORDER", "PCI_BUS_ID"}}) ==
        CheckStatus::kOk);
}

TEST_CASE("NCCL that is missing or old") {
  Machine machine = good_machine();
  machine.nccl_version = 21403;
  CHECK(status_of("NCCL", gpu_job(), machine) == CheckStatus::kWarning);
  CHECK_THAT(check_of("NCCL", gpu_job(), machine).message, Catch::StartsWith("2.14.3 "));
  machine.nccl_version = 2804;
  CHECK_THAT(check_of("NCCL", gpu_job(), machine).message, Catch::StartsWith("2.8.4 "));
  machine.nccl_version.reset();
  machine.nccl_problem = "cannot open libnccl.so.2";
  CHECK(status_of("NCCL", gpu_job(), machine) == CheckStatus::kError);
}

TEST_CASE("CUDA_DEVICE_MAX_CONNECTIONS for the layout and the GPU") {
  Machine machine = good_machine();
  JobNeeds needs = gpu_job();
  const auto status = [&](const Variables& variables) {
    machine.environment = lookup(variables);
    return status_of("CUDA_DEVICE_MAX_CONNECTIONS", needs, machine);
  };
  const Variables one = {{"CUDA_DEVICE_MAX_CONNECTIONS", "1"}};
  CHECK(status(one) == CheckStatus::kWarning);  // FSDP's all-gathers need several connections
  CHECK(status({}) == CheckStatus::kOk);
  needs.shards_parameters = false;  // tensor parallelism alone needs one connection
  CHECK(status(one) == CheckStatus::kOk);
  CHECK(status({}) == CheckStatus::kWarning);
  for (Gpu& gpu : machine.gpus.gpus)
    gpu.compute_major = 10;  // Blackwell keeps the order of kernels by itself
  CHECK(status({}) == CheckStatus::kOk);
}

TEST_CASE("shared memory for NCCL") {
  Machine machine = good_machine();
  machine.shm = MemoryInfo{64LL << 20, 64LL << 20};  // usual size in a container
  CHECK(status_of("shared memory", gpu_job(), machine) == CheckStatus::kError);
  machine.shm = MemoryInfo{kGiB, kGiB / 2};
  CHECK(status_of("shared memory", gpu_job(), machine) == CheckStatus::kWarning);
  machine.shm.reset();
  CHECK(status_of("shared memory", gpu_job(), machine) == CheckStatus::kError);
}

TEST_CASE("locked memory for InfiniBand") {
  Machine machine = good_machine();
  machine.limits.locked_bytes = 8LL << 20;
  CHECK(status_of("locked memory", gpu_job(), machine) == CheckStatus::kWarning);
  machine.infiniband_devices = 0;
  CHECK(status_of("locked memory", gpu_job(), machine) == CheckStatus::kSkipped);
}

TEST_CASE("memory of a plan for the CPU") {
  Machine machine = good_machine();
  CHECK(status_of("memory", cpu_job(), machine) == CheckStatus::kOk);
  CHECK(status_of("memory", gpu_job(), machine) == CheckStatus::kSkipped);
  machine.memory.available = 64 * kGiB;
  CHECK(status_of("memory", cpu_job(), machine) == CheckStatus::kWarning);
  machine.memory = {64 * kGiB, 64 * kGiB};
  CHECK(status_of("memory", cpu_job(), machine) == CheckStatus::kError);
}

TEST_CASE("disk for the checkpoints") {
  Machine machine = good_machine();
  machine.disk->available = 250 * kGiB;  // space for two checkpoints, but not for a third
  CHECK(status_of("disk", gpu_job(), machine) == CheckStatus::kWarning);
  machine.disk->available = 90 * kGiB;
  CHECK(status_of("disk", gpu_job(), machine) == CheckStatus::kError);
  machine.disk.reset();
  CHECK(check_of("disk", gpu_job(), machine).status == CheckStatus::kWarning);
}

TEST_CASE("limits of a process and of a user") {
  Machine machine = good_machine();
  machine.limits = {64, 100, std::nullopt};
  CHECK(status_of("open files", gpu_job(), machine) == CheckStatus::kError);
  CHECK(status_of("processes", gpu_job(), machine) == CheckStatus::kError);
  machine.limits = {150, 400, std::nullopt};
  CHECK(status_of("open files", gpu_job(), machine) == CheckStatus::kWarning);
  CHECK(status_of("processes", gpu_job(), machine) == CheckStatus::kWarning);
  machine.limits = {1024, 4096, std::nullopt};
  CHECK(status_of("open files", gpu_job(), machine) == CheckStatus::kOk);
  CHECK(status_of("processes", gpu_job(), machine) == CheckStatus::kOk);
}

TEST_CASE("the launcher that holds the store needs descriptors for the whole job") {
  Machine machine = good_machine();
  machine.limits.open_files = 1024;
  JobNeeds needs = gpu_job();
  needs.world_size = 336;
  needs.ranks_here = 8;
  needs.num_nodes = 42;
  needs.serves_port = false;
  CHECK(status_of("open files", needs, machine) ==
        CheckStatus::kWarning);  // each rank needs 736 open files
  needs.serves_port = true;
  const Check check = check_of("open files", needs, machine);
  CHECK(check.status == CheckStatus::kError);
  CHECK(check.message ==
        "the launcher needs 1113 open files and connections, including 3 for each of the 336 ranks "
        "that connect to it, but may have only 1024");
}

TEST_CASE("threads of the ranks against the cores") {
  Machine machine = good_machine();
  const auto status = [&](const std::string& threads) {
    machine.environment = lookup({{"OMP_NUM_THREADS", threads}});
    return status_of("threads", gpu_job(), machine);
  };
  CHECK(status("8") == CheckStatus::kOk);
  CHECK(status("1") == CheckStatus::kOk);
  CHECK(status("64") == CheckStatus::kWarning);
  CHECK(status("many") == CheckStatus::kError);
  machine.environment = lookup({});
  CHECK_THAT(check_of("threads", gpu_job(), machine).message, Catch::Contains("OMP_NUM_THREADS=8"));
}

TEST_CASE("the clock") {
  Machine machine = good_machine();
  machine.clock = {1970, true};
  CHECK(status_of("clock", gpu_job(), machine) == CheckStatus::kError);
  machine.clock = {2026, false};
  CHECK(status_of("clock", gpu_job(), machine) == CheckStatus::kWarning);
  CHECK(status_of("clock", cpu_job(), machine) == CheckStatus::kOk);
  machine.clock.synchronized.reset();
  CHECK(status_of("clock", gpu_job(), machine) == CheckStatus::kOk);
}
