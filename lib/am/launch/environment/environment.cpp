#include "am/launch/environment/environment.h"

#include <algorithm>
#include <array>
#include <cstdlib>

#include "am/base/number.h"
#include "am/base/random.h"
#include "am/base/text.h"
#include "am/launch/environment/slurm.h"
#include "am/launch/environment/variables.h"

namespace am::launch {
namespace {

// Reads MASTER_ADDR and MASTER_PORT, which the user or the launcher may have set. `port` replaces a
// missing MASTER_PORT. Callers derive `port` from the id of the launcher's job, or pass 0: a job of
// several ranks then needs MASTER_PORT.
void read_master(const Variables& variables, RankEnvironment& here, int port) {
  here.master_addr = without_brackets(variables.text("MASTER_ADDR").value_or(here.master_addr));
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
      variables.error(cat("MASTER_PORT=", *given, " is not a port: the largest is 65535"), "");
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
  if (!variables.ok()) return;  // avoids errors that only follow from earlier errors
  if (here.rank >= here.world_size) {
    variables.error(cat(rank, "=", here.rank, " must be below ", world, "=", here.world_size), "");
  }
  if (here.local_world_size > here.world_size) {
    variables.error(cat("this machine has more ranks (", here.local_world_size,
                        ") than the whole job (", world, "=", here.world_size, ")"),
                    "");
  }
  if (here.local_rank >= here.local_world_size) {
    variables.error(
        cat(local_rank, "=", here.local_rank,
            " must be below the number of ranks on this machine, ", here.local_world_size),
        "");
  }
  if (here.num_nodes > here.world_size) {
    variables.error(cat("the job has more machines (", here.num_nodes, ") than ranks (", world, "=",
                        here.world_size, ")"),
                    "");
  }
  if (variables.ok() && here.node_rank >= here.num_nodes) {
    variables.error(
        cat("node rank ", here.node_rank, " must be below the number of nodes, ", here.num_nodes),
        "");
  }
}

// Names of the variables that contain a rank's local rank, and the number of ranks on its machine.
struct LocalNames {
  const char* rank;
  const char* size;
};

// The names that these launchers use, in this order: MPICH's Hydra and Intel MPI; Cray's PMI; HPE's
// PALS.
constexpr std::array<LocalNames, 3> kPmiLocal = {{{"MPI_LOCALRANKID", "MPI_LOCALNRANKS"},
                                                  {"PMI_LOCAL_RANK", "PMI_LOCAL_SIZE"},
                                                  {"PALS_LOCAL_RANKID", "PALS_LOCAL_SIZE"}}};

// Slurm reserves step ids from this number on for steps that are not started by srun: the batch
// script, an interactive shell and the extern step, whose ids are 0xfffffffa and above.
constexpr int64_t kFirstSpecialStep = 0xfffffff0;

bool is_slurm_task(const Variables& variables) {
  if (!variables.has("SLURM_PROCID") || !variables.has("SLURM_NTASKS") ||
      !variables.has("SLURM_STEP_ID")) {
    return false;
  }
  const std::string step = *variables.text("SLURM_STEP_ID");
  const bool special =
      step.size() >= 10 && std::strtoll(step.c_str(), nullptr, 10) >= kFirstSpecialStep;
  // SLURM_PTY_PORT is set in the interactive shell of srun --pty. This shell is a task of a step,
  // but not a rank.
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
      variables.error(cat(name, "=", *text, " is not a list of tasks such as 2(x3),1"), "");
      return;
    }
    // SLURM_NTASKS_PER_NODE is one number, which applies to all nodes.
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

// Returns this machine's number of ranks from variables that MPI's launcher has set for this rank.
// Called if LOCAL_RANK is set but LOCAL_WORLD_SIZE and LOCAL_SIZE are not. Reports an error if no
// variable contains the number.
int64_t local_size_beside(const Variables& variables, const RankEnvironment& here) {
  const auto is_rank = [&](const char* name) {
    return variables.text(name) == variables.text("RANK");
  };
  if (is_rank("OMPI_COMM_WORLD_RANK") && variables.has("OMPI_COMM_WORLD_LOCAL_SIZE")) {
    return variables.number("OMPI_COMM_WORLD_LOCAL_SIZE", 1).value_or(1);
  }
  for (const LocalNames& names : kPmiLocal) {
    if (is_rank("PMI_RANK") && variables.has(names.size)) {
      return variables.number(names.size, 1).value_or(1);
    }
  }
  variables.required("LOCAL_WORLD_SIZE", 1, "LOCAL_RANK");
  return here.world_size;
}

// Reads this machine's number of ranks, its node rank and the number of nodes from torchrun's
// variables. Container hooks and DeepSpeed's launcher leave some of them unset. The number of ranks
// is then read from LOCAL_SIZE, Slurm or MPI. If Slurm's variables contain the number of ranks, the
// node numbers are also read from Slurm's variables. Otherwise missing node numbers are computed
// from the rank and the number of ranks.
void read_torchrun_node(const Variables& variables, RankEnvironment& here) {
  const bool is_slurms =
      is_slurm_task(variables) && variables.text("SLURM_PROCID") == variables.text("RANK");
  if (variables.has("LOCAL_WORLD_SIZE")) {
    here.local_world_size = variables.number("LOCAL_WORLD_SIZE", 1).value_or(1);
  } else if (variables.has("LOCAL_SIZE")) {
    here.local_world_size = variables.number("LOCAL_SIZE", 1).value_or(1);
  } else if (variables.has("LOCAL_RANK") && is_slurms) {
    read_slurm_nodes(variables, here);
    return;
  } else if (variables.has("LOCAL_RANK") && here.world_size > 1) {
    here.local_world_size = local_size_beside(variables, here);
  }  // without LOCAL_RANK, the rank is alone on its machine, as in a pod
  here.node_rank = variables.number("GROUP_RANK", 0).value_or(here.rank / here.local_world_size);
  here.num_nodes = variables.number("GROUP_WORLD_SIZE", 1)
                       .value_or(ceil_div(here.world_size, here.local_world_size));
}

// Reads torchrun's variables. Other launchers also set them, sometimes without node numbers or
// local ranks.
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
  read_torchrun_node(variables, here);
  here.agent_store = variables.text("TORCHELASTIC_USE_AGENT_STORE").value_or("") == "True";
  here.restart_count = variables.number("TORCHELASTIC_RESTART_COUNT", 0).value_or(0);
  if (here.world_size > 1) here.master_addr.clear();
  read_master(variables, here, 0);
  check_ranks(variables, here, "RANK", "WORLD_SIZE", "LOCAL_RANK");
  return here;
}

// Returns a port from 10000 to 29999, which is equal on all ranks because it depends only on `job`.
// The range is below Linux's default range of ephemeral ports (32768 to 60999).
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
  // The job's id, which is equal on all ranks. Open MPI 5 stores it in PMIX_NAMESPACE, Open MPI 4
  // in OMPI_MCA_ess_base_jobid.
  auto job = variables.text("PMIX_NAMESPACE");
  if (!job) job = variables.text("OMPI_MCA_ess_base_jobid");
  read_master(variables, here, job && here.num_nodes == 1 ? derived_port(hash_name(*job)) : 0);
  check_ranks(variables, here, prefix + "RANK", prefix + "SIZE", prefix + "LOCAL_RANK");
  return here;
}

// Reads the local rank and the number of ranks on this machine from the variables of kPmiLocal. If
// no variable contains the number of ranks, assumes that all ranks of the job are on this machine.
// Sets `rank_name` to the name of the variable for the local rank, if a variable of kPmiLocal is
// set.
void read_pmi_local(const Variables& variables, RankEnvironment& here, std::string& rank_name) {
  std::optional<int64_t> rank;
  std::optional<int64_t> size;
  const char* size_name = nullptr;
  for (const LocalNames& names : kPmiLocal) {
    if (!rank && variables.has(names.rank)) {
      rank = variables.number(names.rank, 0).value_or(0);
      rank_name = names.rank;
    }
    if (!size && variables.has(names.size)) {
      size = variables.number(names.size, 1).value_or(1);
      size_name = names.size;
      if (!rank) rank_name = names.rank;
    }
  }
  here.local_world_size = size.value_or(here.world_size);
  if (rank) {
    here.local_rank = *rank;
  } else if (here.local_world_size == here.world_size) {
    here.local_rank = std::min(here.rank, here.world_size - 1);
  } else {
    here.local_rank = variables.required(rank_name, 0, size_name);
  }
}

// Reads Flux's variables. They contain the number of machines, but not this machine's number of
// ranks. Assumes that Flux starts equally many consecutive ranks on every machine.
RankEnvironment read_flux(const Variables& variables) {
  RankEnvironment here;
  here.launcher = "flux";
  here.world_size = variables.required("FLUX_JOB_SIZE", 1, "FLUX_TASK_RANK");
  here.rank = variables.number("FLUX_TASK_RANK", 0).value_or(0);
  here.local_rank = variables.required("FLUX_TASK_LOCAL_ID", 0, "FLUX_TASK_RANK");
  here.num_nodes = variables.required("FLUX_JOB_NNODES", 1, "FLUX_TASK_RANK");
  here.local_world_size = ceil_div(here.world_size, here.num_nodes);
  here.node_rank = here.rank / here.local_world_size;
  if (here.num_nodes > 1) here.master_addr.clear();
  const auto job = variables.text("FLUX_JOB_ID");
  read_master(variables, here, job ? derived_port(hash_name(*job)) : 0);
  check_ranks(variables, here, "FLUX_TASK_RANK", "FLUX_JOB_SIZE", "FLUX_TASK_LOCAL_ID");
  return here;
}

RankEnvironment read_pmi(const Variables& variables) {
  RankEnvironment here;
  here.launcher = "pmi";
  here.world_size = variables.required("PMI_SIZE", 1, "PMI_RANK");
  here.rank = variables.number("PMI_RANK", 0).value_or(0);
  std::string rank_name = "PMI_RANK";
  read_pmi_local(variables, here, rank_name);
  here.node_rank = here.rank / here.local_world_size;
  here.num_nodes = ceil_div(here.world_size, here.local_world_size);
  if (here.num_nodes > 1) here.master_addr.clear();
  read_master(variables, here, 0);
  check_ranks(variables, here, "PMI_RANK", "PMI_SIZE", rank_name);
  return here;
}

RankEnvironment read_slurm(const Variables& variables) {
  RankEnvironment here;
  here.launcher = "slurm";
  // Prefers the step's number of tasks, because SLURM_NTASKS may be the number of tasks of the
  // whole job.
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
      variables.error(cat(name, "=", *list, " is not a list of hosts such as node[01-03,7]"), "");
    }
    break;
  }
  int port = 0;
  const std::string job = variables.has("SLURM_JOB_ID") ? "SLURM_JOB_ID" : "SLURM_JOBID";
  if (const auto id = variables.number(job, 0)) {
    // Steps of one job may run simultaneously, so they use different ports.
    const int64_t step = variables.number("SLURM_STEP_ID", 0).value_or(0);
    port = derived_port(static_cast<uint64_t>(*id) + 1009 * static_cast<uint64_t>(step));
  }
  read_master(variables, here, port);
  check_ranks(variables, here, "SLURM_PROCID", size, "SLURM_LOCALID");
  return here;
}

// Returns whether srun has set PMI's variables, as it does if it serves PMI to its tasks. Slurm's
// own variables then contain equal values and are more complete.
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
  } else if (variables.has("FLUX_TASK_RANK")) {
    here = read_flux(variables);
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
