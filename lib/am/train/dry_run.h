// Runs one rank's part of a training step without other ranks, and counts the rank's messages and
// memory. The rank's real model and strategy run on the meta device, in a fake world. Nothing is
// computed or sent; tensors have only sizes.
//
//   const DryRun run = dry_run(job, /*rank=*/0);
//   run.peak.total();              // bytes
//   run.collectives.front();       // {"all_gather", "dp_shard_cp", bytes, 253}
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "am/job/job.h"
#include "am/runtime/collective_count.h"
#include "am/tensor/memory_meter.h"

namespace am::train {

using runtime::CollectiveCount;

// Bytes of the tensors that exist at the end of a phase of the step. The phases are "forward" and
// "backward" of the last micro-batch, and "optimizer".
struct PhaseMemory {
  std::string phase;
  int64_t live_bytes = 0;
};

struct DryRun {
  int64_t rank = 0;
  // Bytes of the tensors at the moment when their total was largest. Excludes the scratch memory of
  // most kernels, and the memory that an allocator reserves in addition.
  tensor::MemoryBytes peak;
  std::vector<PhaseMemory> phases;
  std::vector<CollectiveCount> collectives;  // in the order in which they were first used
  double seconds = 0.0;                      // duration of the dry run, not of a real step
};

// Default number of rounds to run. A round is one micro-batch on each data-parallel rank or, with a
// pipeline, one run of the schedule. The first round of a step finds no accumulated gradients, and
// the last round may reduce the gradients. All rounds between the first and the last are alike in
// messages and memory.
inline constexpr int64_t kWalkedRounds = 3;

// Builds the model of rank `rank` and runs steps as Trainer::train_step does. Reports the messages
// and phases of the last step, and the peak of the whole dry run. Runs at most max(walked, 3)
// rounds of a step, and extrapolates the messages of the other rounds. `job` must have been
// checked, as by job::open_job().
DryRun dry_run(const job::Job& job, int64_t rank, int64_t walked = kWalkedRounds);

}  // namespace am::train
