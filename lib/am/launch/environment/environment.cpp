#include "am/launch/environment/environment.h"

#include <algorithm>
#include <cstdlib>

#include "am/base/number.h"
#include "am/base/random.h"
#include "am/base/text.h"
#include "am/launch/environment/slurm.h"

namespace am::launch {
namespace {

constexpr const char* kRule = "launch.environment";

// Reads variables as numbers and reports each bad one once.
class Variables {
 public:
  Variables(const EnvironmentLookup& lookup, Diagnostics& found) : lookup_(lookup), found_(found) {}

  bool has(const std::string& name) const { return text(name).has_value(); }

  // An empty variable counts as unset: schedulers export placeholders.
  std::optional<std::string> text(const std::string& name) const {
    std::optional<std::string> value = lookup_(name);
    if (value && trim(*value).empty()) value.reset();
    return value;
  }

  std::optional<int64_t> number(const std::string& name, int64_t least) const {
    const std::optional<std::string> value = text(name);
    if (!value) return std::nullopt;
    const auto result = parse_integer(trim(*value));
    if (!result || *result < least) {
      error(cat(name, "=", *value, " is not a whole number of at least ", least), "");
      return std::nullopt;
    }
    return result;
  }

  // A variable that the launcher must set beside `because`.
  int64_t required(const std::string& name, int64_t least, const std::string& because) const {
    if (!has(name)) {
      error(cat(because, " is set, but ", name, " is not"),
            cat("set ", name, " too, or unset ", because,
                " to let am-run start the ranks of this machine"));
      return least;
    }
    return number(name, least).value_or(least);
  }

  bool ok() const { return found_.ok(); }

  void error(const std::string& message, const std::string& help) const {
    found_.error(kRule, Span{}, message, help);
  }

 private:
  const EnvironmentLookup& lookup_;
  Diagnostics& found_;
};

// MASTER_ADDR and MASTER_PORT where the user or the launcher gave them; `port` is the launcher's
// own choice, 0 for none.
void read_master(const Variables& variables, RankEnvironment& here, int port) {
  here.master_addr = variables.text("MASTER_ADDR").value_or(here.master_addr);
  if (here.master_addr.empty()) {
    here.master_addr = "127.0.0.1";
    if (here.num_nodes > 1 || here.local_world_size != here.world_size) {
      variables.error("MASTER_ADDR is not set, and the ranks are on several machines",
                      "set it to the name or address of rank 0's machine, e.g. mpirun -x "
                      "MASTER_ADDR=node01 -x MASTER_PORT=29500");
    }
  }
  here.master_port = port;
  if (const auto given = variables.number("MASTER_PORT", 1)) {
    if (*given > 65535) {
      variables.error(cat("MASTER_PORT=", *given, " is no port: the largest is 65535"), "");
    } else {
      here.master_port = static_cast<int>(*given);
    }
  } else if (here.master_port == 0 && here.world_size > 1 && !variables.has("MASTER_PORT")) {
    variables.error("MASTER_PORT is not set",
                    "set it to one free port of rank 0's machine, the same for all ranks");
  }
}

void check_ranks(const Variables& variables, const RankEnvironment& here, const std::string& rank,
                 const std::string& world, const std::string& local_rank) {
  if (!variables.ok()) return;  // what follows would only repeat what is known to be wrong
  if (here.rank >= here.world_size) {
    variables.error(cat(rank, "=", here.rank, " must be below ", world, "=", here.world_size), "");
  }
  if (here.local_world_size > here.world_size) {
    variables.error(cat("the ranks of this machine (", here.local_world_size,
                        ") are more than the world (", world, "=", here.world_size, ")"),
                    "");
  }
  if (here.local_rank >= here.local_world_size) {
    variables.error(
        cat(local_rank, "=", here.local_rank,
            " must be below the number of ranks on this machine, ", here.local_world_size),
        "");
  }
}

// The variables of an older or smaller launcher than torchrun: no node numbers, perhaps no local
// ones.
RankEnvironment read_torchrun(const Variables& variables) {
  RankEnvironment here;
  here.launcher = "torchrun";
  if (variables.has("RANK")) {
    here.world_size = variables.required("WORLD_SIZE", 1, "RANK");
    here.rank = variables.number("RANK", 0).value_or(0);
  } else {
    here.world_size = variables.number("WORLD_SIZE", 1).value_or(1);
    here.rank = variables.required("RANK", 0, "WORLD_SIZE");
  }
  here.local_rank = variables.number("LOCAL_RANK", 0).value_or(0);
  // Without local variables each rank has its machine (a pod) to itself.
  here.local_world_size = variables.has("LOCAL_RANK")
                              ? variables.required("LOCAL_WORLD_SIZE", 1, "LOCAL_RANK")
                              : variables.number("LOCAL_WORLD_SIZE", 1).value_or(1);
  here.node_rank = variables.number("GROUP_RANK", 0).value_or(here.rank / here.local_world_size);
  here.num_nodes = variables.number("GROUP_WORLD_SIZE", 1)
                       .value_or(ceil_div(here.world_size, here.local_world_size));
  here.agent_store = variables.text("TORCHELASTIC_USE_AGENT_STORE").value_or("") == "True";
  here.restart_count = variables.number("TORCHELASTIC_RESTART_COUNT", 0).value_or(0);
  if (here.world_size > 1) here.master_addr.clear();
  read_master(variables, here, 0);
  check_ranks(variables, here, "RANK", "WORLD_SIZE", "LOCAL_RANK");
  return here;
}

// A port that all ranks of one job work out alike: below the ports that kernels hand out by
// themselves.
int derived_port(uint64_t job) { return static_cast<int>(10000 + job % 20000); }

RankEnvironment read_open_mpi(const Variables& variables) {
  RankEnvironment here;
  here.launcher = "open-mpi";
  const std::string prefix = "OMPI_COMM_WORLD_";
  here.world_size = variables.required(prefix + "SIZE", 1, prefix + "RANK");
  here.rank = variables.number(prefix + "RANK", 0).value_or(0);
  here.local_rank = variables.required(prefix + "LOCAL_RANK", 0, prefix + "RANK");
  here.local_world_size = variables.required(prefix + "LOCAL_SIZE", 1, prefix + "RANK");
  here.node_rank = here.rank / here.local_world_size;
  here.num_nodes = ceil_div(here.world_size, here.local_world_size);
  if (here.num_nodes > 1) here.master_addr.clear();
  // The job's own name, the same in all its ranks: Open MPI 5's, then Open MPI 4's.
  auto job = variables.text("PMIX_NAMESPACE");
  if (!job) job = variables.text("OMPI_MCA_ess_base_jobid");
  read_master(variables, here, job && here.num_nodes == 1 ? derived_port(hash_name(*job)) : 0);
  check_ranks(variables, here, prefix + "RANK", prefix + "SIZE", prefix + "LOCAL_RANK");
  return here;
}

RankEnvironment read_pmi(const Variables& variables) {
  RankEnvironment here;
  here.launcher = "pmi";
  here.world_size = variables.required("PMI_SIZE", 1, "PMI_RANK");
  here.rank = variables.number("PMI_RANK", 0).value_or(0);
  // MPICH and Intel MPI say the local rank; its number of local ranks is Hydra's.
  here.local_rank = variables.number("MPI_LOCALRANKID", 0).value_or(here.world_size > 1 ? -1 : 0);
  here.local_world_size = variables.number("MPI_LOCALNRANKS", 1).value_or(here.world_size);
  if (here.local_rank < 0) {
    if (here.local_world_size == here.world_size) {
      here.local_rank = std::min(here.rank, here.world_size - 1);
    } else {
      here.local_rank = variables.required("MPI_LOCALRANKID", 0, "MPI_LOCALNRANKS");
    }
  }
  here.node_rank = here.rank / here.local_world_size;
  here.num_nodes = ceil_div(here.world_size, here.local_world_size);
  if (here.num_nodes > 1) here.master_addr.clear();
  read_master(variables, here, 0);
  check_ranks(variables, here, "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID");
  return here;
}

// Slurm numbers the steps that are no srun from the top: the batch script, an interactive shell,
// the container of external processes (0xfffffffa and above).
constexpr int64_t kFirstSpecialStep = 0xfffffff0;

bool is_slurm_task(const Variables& variables) {
  if (!variables.has("SLURM_PROCID") || !variables.has("SLURM_NTASKS") ||
      !variables.has("SLURM_STEP_ID")) {
    return false;
  }
  const std::string step = *variables.text("SLURM_STEP_ID");
  const bool special =
      step.size() >= 10 && std::strtoll(step.c_str(), nullptr, 10) >= kFirstSpecialStep;
  // srun --pty: a person's shell, though it is a task of one.
  return !special && !variables.has("SLURM_PTY_PORT");
}

void read_slurm_nodes(const Variables& variables, RankEnvironment& here) {
  here.node_rank = variables.number("SLURM_NODEID", 0).value_or(0);
  here.num_nodes = 1;
  for (const char* name : {"SLURM_STEP_NUM_NODES", "SLURM_NNODES", "SLURM_JOB_NUM_NODES"}) {
    if (!variables.has(name)) continue;
    here.num_nodes = variables.number(name, 1).value_or(1);
    break;
  }
  here.local_world_size = ceil_div(here.world_size, here.num_nodes);
  for (const char* name :
       {"SLURM_STEP_TASKS_PER_NODE", "SLURM_TASKS_PER_NODE", "SLURM_NTASKS_PER_NODE"}) {
    const auto text = variables.text(name);
    if (!text) continue;
    const auto tasks = slurm_tasks_per_node(*text);
    if (!tasks) {
      variables.error(cat(name, "=", *text, " is no list of tasks such as 2(x3),1"), "");
      return;
    }
    // SLURM_NTASKS_PER_NODE is one number for all nodes.
    const size_t at = tasks->size() == 1 ? 0 : static_cast<size_t>(here.node_rank);
    if (at >= tasks->size()) {
      variables.error(cat("SLURM_NODEID=", here.node_rank, " is not below the number of nodes in ",
                          name, "=", *text),
                      "");
      return;
    }
    here.local_world_size = (*tasks)[at];
    return;
  }
}

RankEnvironment read_slurm(const Variables& variables) {
  RankEnvironment here;
  here.launcher = "slurm";
  // Of the step, where Slurm says it: the job's SLURM_NTASKS may be larger.
  const std::string size =
      variables.has("SLURM_STEP_NUM_TASKS") ? "SLURM_STEP_NUM_TASKS" : "SLURM_NTASKS";
  here.world_size = variables.number(size, 1).value_or(1);
  here.rank = variables.number("SLURM_PROCID", 0).value_or(0);
  here.local_rank = variables.required("SLURM_LOCALID", 0, "SLURM_PROCID");
  read_slurm_nodes(variables, here);
  if (here.num_nodes > 1) here.master_addr.clear();
  for (const char* name : {"SLURM_STEP_NODELIST", "SLURM_NODELIST", "SLURM_JOB_NODELIST"}) {
    const auto list = variables.text(name);
    if (!list) continue;
    if (const auto host = first_slurm_host(*list)) {
      here.master_addr = *host;
    } else {
      variables.error(cat(name, "=", *list, " is no list of hosts such as node[01-03,7]"), "");
    }
    break;
  }
  int port = 0;
  const std::string job = variables.has("SLURM_JOB_ID") ? "SLURM_JOB_ID" : "SLURM_JOBID";
  if (const auto id = variables.number(job, 0)) {
    // Steps of one job may run at the same time: keep their ports apart.
    const int64_t step = variables.number("SLURM_STEP_ID", 0).value_or(0);
    port = derived_port(static_cast<uint64_t>(*id) + 1009 * static_cast<uint64_t>(step));
  }
  read_master(variables, here, port);
  check_ranks(variables, here, "SLURM_PROCID", size, "SLURM_LOCALID");
  return here;
}

// srun can speak PMI to its tasks; its own variables then agree with PMI's and say more.
bool pmi_is_slurms(const Variables& variables) {
  return is_slurm_task(variables) && variables.text("PMI_RANK") == variables.text("SLURM_PROCID") &&
         (variables.text("PMI_SIZE") == variables.text("SLURM_NTASKS") ||
          variables.text("PMI_SIZE") == variables.text("SLURM_STEP_NUM_TASKS"));
}

}  // namespace

EnvironmentLookup process_environment() {
  return [](const std::string& name) -> std::optional<std::string> {
    const char* value = std::getenv(name.c_str());
    if (value == nullptr) return std::nullopt;
    return std::string(value);
  };
}

std::optional<RankEnvironment> detect_environment(const EnvironmentLookup& lookup,
                                                  Diagnostics& found) {
  Diagnostics own;
  const Variables variables(lookup, own);
  std::optional<RankEnvironment> here;
  if (variables.has("RANK") || variables.has("WORLD_SIZE")) {
    here = read_torchrun(variables);
  } else if (variables.has("OMPI_COMM_WORLD_RANK")) {
    here = read_open_mpi(variables);
  } else if (variables.has("PMI_RANK") && !pmi_is_slurms(variables)) {
    here = read_pmi(variables);
  } else if (is_slurm_task(variables)) {
    here = read_slurm(variables);
  }
  found.append(own);
  if (!own.ok()) return std::nullopt;
  return here;
}

}  // namespace am::launch
