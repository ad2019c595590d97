// Determines this process's rank from the environment variables of common launchers.
//
//   Diagnostics found;
//   auto here = launch::detect_environment(launch::process_environment(), found);
//   if (!found.ok()) ...          // RANK without WORLD_SIZE, a value that is not a number
//   if (!here) ...                // no launcher: start the ranks of this machine
//
// Launchers are tried in this order, and the first launcher whose variables are set is used:
//   torchrun   RANK, WORLD_SIZE (Kubernetes' PyTorchJob with one process per pod sets these too).
//              Container hooks and DeepSpeed's launcher set no LOCAL_WORLD_SIZE. The number of
//              ranks on the machine is then read from LOCAL_SIZE, or from Slurm's or MPI's
//              variables of the same rank
//   open-mpi   OMPI_COMM_WORLD_RANK, OMPI_COMM_WORLD_SIZE
//   flux       FLUX_TASK_RANK, FLUX_JOB_SIZE, FLUX_TASK_LOCAL_ID, FLUX_JOB_NNODES
//   pmi        PMI_RANK, PMI_SIZE, unless srun set them: Slurm's own variables are then more
//              complete. Local rank: MPI_LOCALRANKID (MPICH, Intel MPI), PMI_LOCAL_RANK (Cray),
//              PALS_LOCAL_RANKID
//   slurm      SLURM_PROCID, SLURM_NTASKS and SLURM_STEP_ID
// MPI precedes Slurm, because in an allocation of Slurm mpirun starts its daemons through srun, and
// the ranks inherit the daemon's SLURM_PROCID. Flux precedes PMI, because Flux also sets PMI's
// variables.
//
// Kubeflow's trainer, and a PyTorchJob with several processes per pod, set variables that describe
// a machine instead of a rank. Each name consists of PET_ and the name of a torchrun option: see
// node_environment.h.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "am/base/diagnostic.h"

namespace am::launch {

// A function that returns the value of an environment variable; nothing if it is unset.
using EnvironmentLookup = std::function<std::optional<std::string>(const std::string& name)>;

// Returns an EnvironmentLookup of this process's environment.
EnvironmentLookup process_environment();

// Environment variable that `am-run --dry-run --exec PROGRAM` sets for the program. The program
// then runs one rank's part of the job without the other ranks, and writes a report
// (parallel/module/module_dry_run.h) to the file whose path the variable contains.
inline constexpr const char* kDryRunVariable = "AM_DRY_RUN";

// This process's rank, as the launcher's variables describe it. The defaults describe a job of one
// rank.
struct RankEnvironment {
  int64_t rank = 0;
  int64_t world_size = 1;
  int64_t local_rank = 0;  // index among the ranks of this machine
  int64_t local_world_size = 1;
  int64_t node_rank = 0;
  int64_t num_nodes = 1;
  std::string master_addr = "127.0.0.1";
  int master_port = 0;  // port of the store; may be 0 if world_size is 1
  // "torchrun", "open-mpi", "flux", "pmi", "slurm", or "local" if no launcher's variables were
  // read.
  std::string launcher;
  // Whether the launcher serves the store at master_addr:master_port, as torchrun does if it sets
  // TORCHELASTIC_USE_AGENT_STORE=True. Otherwise rank 0 serves the store.
  bool agent_store = false;
  int64_t restart_count = 0;  // number of earlier attempts of the job
};

// Reads the launcher's variables. Returns nothing, without an error, if no launcher started this
// process as a rank. The shell of an interactive Slurm allocation or of `srun --pty`, and the
// process of a batch script, do not count as ranks, although SLURM_PROCID is set for them. If a
// launcher's variables are incomplete, not numbers, or contradictory, returns nothing and adds
// errors of the rule "launch.environment" to `found`.
//
// If MASTER_PORT is not set, all ranks compute equal ports: under Slurm from the ids of the job and
// of the step, under Flux from the job's id, and under Open MPI from the job's id if all ranks are
// on one machine. Other launchers must set MASTER_PORT if the job has several ranks.
std::optional<RankEnvironment> detect_environment(const EnvironmentLookup& lookup,
                                                  Diagnostics& found);

}  // namespace am::launch
