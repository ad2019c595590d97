// Checks of the machine itself: memory, disk, limits, clock, threads.
#include <algorithm>

#include "am/base/number.h"
#include "am/base/text.h"
#include "am/base/units.h"
#include "am/config/backend.h"
#include "am/launch/doctor/doctor_checks.h"
#include "am/launch/environment/open_files.h"

namespace am::launch {
namespace {

Check check_memory(const JobNeeds& needs, const Machine& machine) {
  if (!config::computes_on_host(needs.backend))
    return skipped("the plan's tensors are on the GPUs");
  const int64_t wanted = needs.ranks_here * (needs.peak_bytes + kRankBytes);
  const std::string text = cat(
      format_bytes(wanted), " predicted for ", count_text(needs.ranks_here, "rank"), ", ",
      format_bytes(machine.memory.available), " available of ", format_bytes(machine.memory.total));
  if (wanted > machine.memory.total) {
    return error(
        text, "use fewer ranks on this machine, or a smaller model or batch: see am-plan memory");
  }
  if (wanted > machine.memory.available)
    return warning(text, "end other programs that use the memory");
  return ok(text);
}

Check check_disk(const JobNeeds& needs, const Machine& machine) {
  if (!machine.disk) return warning("the size of the run folder's disk is not known", "");
  const int64_t all = needs.checkpoint_bytes * needs.checkpoints_kept;
  const std::string text =
      cat(format_bytes(machine.disk->available), " free, a checkpoint is ",
          format_bytes(needs.checkpoint_bytes), ", ", needs.checkpoints_kept, " will be kept");
  if (needs.checkpoint_bytes > machine.disk->available) {
    return error(text, "choose a larger disk with --run-dir or checkpoint.dir");
  }
  // An old checkpoint is removed only after the next checkpoint is complete. While the next one is
  // written, the disk holds one checkpoint more than are kept.
  if (all + needs.checkpoint_bytes > machine.disk->available) {
    return warning(
        text, "keep fewer checkpoints (checkpoint.keep) or save less often (checkpoint.every)");
  }
  return ok(text);
}

// Checks whether the limit of open files suffices for this machine's launcher and for each rank. On
// node 0, the launcher also needs files for the clients of the store.
Check check_open_files(const JobNeeds& needs, const Machine& machine) {
  if (!machine.limits.open_files) return ok("unlimited");
  LauncherFiles launcher = {.ranks_here = needs.ranks_here};
  if (needs.serves_port) {
    launcher.ranks_served = needs.world_size;
    launcher.launchers_served = needs.num_nodes - 1;
  }
  const OpenFileLimit limit = {*machine.limits.open_files, *machine.limits.open_files};
  if (const auto problem = open_files_problem(launcher, limit)) {
    return error(*problem, open_files_help(open_files_of_launcher(launcher)));
  }
  const int64_t wanted = open_files_of_rank(needs.world_size);
  const std::string text = cat("at most ", *machine.limits.open_files, " per process");
  if (*machine.limits.open_files < wanted) {
    return error(cat(text, ", but a rank needs about ", wanted), open_files_help(4 * wanted));
  }
  if (*machine.limits.open_files < 2 * wanted) {
    return warning(
        cat(text, "; a rank needs about ", wanted, ", and twice as many are recommended"),
        open_files_help(4 * wanted));
  }
  return ok(text);
}

// Checks the limit of processes, for which the kernel counts each thread. A rank has two sets of
// intra-op threads (for forward and for backward) and about 16 other threads, such as c10d's.
Check check_processes(const JobNeeds& needs, const Machine& machine) {
  if (!machine.limits.processes) return ok("unlimited");
  const int64_t threads = 16 + 2 * std::max<int64_t>(1, machine.cores / needs.ranks_here);
  const int64_t wanted = needs.ranks_here * threads;
  const std::string text = cat("at most ", *machine.limits.processes, " for this user");
  if (*machine.limits.processes < wanted) {
    return error(cat(text, ", but this machine's ranks need about ", wanted),
                 cat("raise the limit: ulimit -u ", 4 * wanted));
  }
  if (*machine.limits.processes < 2 * wanted) {
    return warning(cat(text, ", but this machine's ranks may need ", wanted),
                   cat("raise the limit: ulimit -u ", 4 * wanted));
  }
  return ok(text);
}

Check check_threads(const JobNeeds& needs, const Machine& machine) {
  const std::string given = machine.environment("OMP_NUM_THREADS").value_or("");
  const std::string cores = count_text(machine.cores, "core");
  if (given.empty()) {
    const int64_t threads = std::max<int64_t>(1, machine.cores / needs.ranks_here);
    return ok(cat("am-run sets OMP_NUM_THREADS=", threads, ": ", cores, " for ",
                  count_text(needs.ranks_here, "rank")));
  }
  const auto threads = parse_integer(given);
  if (!threads || *threads < 1) {
    return error(cat("OMP_NUM_THREADS=", given, " is not a number of threads"),
                 "unset OMP_NUM_THREADS");
  }
  if (*threads * needs.ranks_here > machine.cores && *threads > 1) {
    return warning(cat("OMP_NUM_THREADS=", *threads, " for each of ",
                       count_text(needs.ranks_here, "rank"), ", on ", cores),
                   "unset it: am-run then shares the cores among the ranks");
  }
  return ok(cat("OMP_NUM_THREADS=", *threads, ", ", cores));
}

Check check_clock(const JobNeeds& needs, const Machine& machine) {
  const ClockFacts& clock = machine.clock;
  if (clock.year < 2025 || clock.year > 2100) {
    return error(cat("the clock shows the year ", clock.year),
                 "set the clock: certificates, logs and the order of checkpoints depend on it");
  }
  if (needs.num_nodes > 1 && clock.synchronized == false) {
    return warning("not synchronised: times in the logs of several machines cannot be compared",
                   "start an NTP client: chronyd, systemd-timesyncd");
  }
  return ok(!clock.synchronized   ? "the year is plausible"
            : *clock.synchronized ? "synchronised"
                                  : "the year is plausible, but the clock is not synchronised");
}

}  // namespace

std::vector<NamedCheck> host_checks() {
  return {{"memory", check_memory},         {"disk", check_disk},
          {"open files", check_open_files}, {"processes", check_processes},
          {"threads", check_threads},       {"clock", check_clock}};
}

}  // namespace am::launch
