// Runs one rank's part of a step without the job: its real model and strategy on the meta device,
// in a fake world. Nothing is computed or sent; tensors have sizes only, which are counted.
//
//   const DryRun run = dry_run(job, /*rank=*/0);
//   run.peak.total();              // bytes
//   run.collectives.front();       // {"all_gather", "dp_shard_cp", bytes, 253}
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "am/job/job.h"
#include "am/tensor/memory_meter.h"

namespace am::train {

// All messages of one collective in one group.
struct CollectiveCount {
  std::string op;
  std::string group;
  int64_t bytes = 0;  // of all messages, in whole tensors: see GroupContext::on_collective
  int64_t count = 0;
};

// Bytes alive at the end of a phase of the step: "forward" and "backward" of the last micro-batch,
// "optimizer".
struct PhaseMemory {
  std::string phase;
  int64_t live_bytes = 0;
};

struct DryRun {
  int64_t rank = 0;
  // Bytes of tensors at the moment of the largest total. Excludes the scratch space of kernels and
  // what an allocator reserves in addition.
  tensor::MemoryBytes peak;
  std::vector<PhaseMemory> phases;
  std::vector<CollectiveCount> collectives;  // in the order of first use
  double seconds = 0.0;                      // duration of the dry run
};

// Default number of rounds to run: the first round of a step starts the gradients, the last one
// reduces them, and all rounds between are alike in messages and memory.
inline constexpr int64_t kWalkedRounds = 3;

// Runs a step as Trainer::train_step does. The reported step is a later one than the first, so
// gradients are allocated from its start. A round is a micro-batch, or the micro-batches of one run
// of the pipeline's schedule. Runs at most max(walked, 3) rounds and extrapolates the messages of
// further ones. Requires a checked job.
DryRun dry_run(const job::Job& job, int64_t rank, int64_t walked = kWalkedRounds);

}  // namespace am::train
