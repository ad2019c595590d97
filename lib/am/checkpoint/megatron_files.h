// Writes the files that Megatron's loader requires beside the tensors of a torch_dist checkpoint.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "am/checkpoint/export_optimizer.h"

namespace am::checkpoint {

// A parameter group of Megatron's optimizer. When Megatron loads a checkpoint, it recognises a
// group by wd_mult and is_expert_parallel.
struct MegatronGroup {
  double wd_mult = 1.0;  // 0 for vectors (norms and biases), to which Megatron applies no decay
  bool experts = false;
  formats::Settings settings;
};

// The part of common.pt that describes the optimizer.
struct MegatronOptimizer {
  std::vector<MegatronGroup> groups;
  int64_t updates = 0;
  // Number of sequences that training has read (num_steps of Megatron's schedule); 0 if unknown.
  int64_t samples = 0;
};

// Returns Megatron's groups for the exported parameters. If weight decay differs within a group,
// adds a note to `optimizer`, because Megatron applies its own setting --weight-decay. Throws
// Error(kFormat) if other settings differ within a group, or if parameters have different step
// counts.
MegatronOptimizer megatron_optimizer(const std::filesystem::path& source,
                                     const std::vector<FilledTensor>& parameters,
                                     ExportedOptimizer& optimizer);

// Writes common.pt and metadata.json. `step`: the number of the training step, if known.
void write_megatron_files(const std::filesystem::path& folder, const std::optional<int64_t>& step,
                          const std::optional<MegatronOptimizer>& optimizer);

}  // namespace am::checkpoint
