// One rank's part of a step without the job: its real model and strategy on the meta device, in a
// pretended world. Nothing is computed or sent; every tensor has its size, and is counted.
//
//   const DryRun run = dry_run(job, /*rank=*/0);
//   run.peak.total();              // bytes
//   run.collectives.front();       // {"all_gather", "dp_shard_cp", bytes, 253}
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "am/planner/job.h"
#include "am/tensor/memory_meter.h"

namespace am::train {

// All messages of one kind in one group.
struct CollectiveCount {
  std::string op;
  std::string group;
  int64_t bytes = 0;  // of all of them, counted whole: see GroupContext::on_collective
  int64_t count = 0;
};

// What is alive when a part of the step is over: "forward" and "backward" of the last micro-batch,
// "optimizer".
struct PhaseMemory {
  std::string phase;
  int64_t live_bytes = 0;
};

struct DryRun {
  int64_t rank = 0;
  // What tensors took at the fullest moment. Kernels' own scratch space is not among it, nor what
  // an allocator reserves beyond it.
  tensor::MemoryBytes peak;
  std::vector<PhaseMemory> phases;
  std::vector<CollectiveCount> collectives;  // by first use
  double seconds = 0.0;                      // that this took
};

// The first round of a step begins its gradients, the last one reduces them, and each round between
// them sends and holds what the others there do.
inline constexpr int64_t kWalkedRounds = 3;

// A step as Trainer::train_step makes it, not the first, in which there are no gradients yet. A
// round is a micro-batch, or those of one run of the pipeline's schedule. At most `walked` rounds,
// at least 3, are gone through, and the messages of further ones are multiplied. The job was
// checked.
DryRun dry_run(const planner::Job& job, int64_t rank, int64_t walked = kWalkedRounds);

}  // namespace am::train
