// When FSDP units are gathered and freed: one rule for the prediction and the runtime.
#pragma once

#include <cstdint>
#include <vector>

#include "am/config/strategy_config.h"
#include "am/mesh/layout.h"
#include "am/model/inventory.h"

namespace am::planner {

// By unit.
//
//   fsdp2          without the setting: true for all but the last layer, the head and the root,
//                  whose parameters backward needs first (PyTorch keeps them); with stages
//                  (`pp` > 1) false for all, as torchtitan has it: each micro-batch would gather
//                  them again. An explicit true or false decides for every unit but the root.
//   megatron_fsdp  true for all at level 3; below it false for all
//   ddp            false for all
std::vector<bool> reshard_after_forward(const config::DistributedConfig& strategy,
                                        const std::vector<model::Unit>& units, int64_t pp);

// Into how many ranks' parts a unit is cut again after forward (reshard_after_forward = N), when
// that is fewer than its shards; 0: into its shards.
int64_t post_forward_size(const config::DistributedConfig& strategy, const mesh::MeshSizes& sizes);
// What of that goes for parameters that so many ranks have, which for experts are others than the
// unit's: 0 where they cannot be cut so.
int64_t post_forward_size(int64_t size, int64_t ranks);

// Whether shards, their gradients and the optimizer's states are in host memory while a GPU
// computes: fsdp2's offload_policy. With the backend "gloo" the host computes, and nothing moves.
bool offloads_to_host(const config::DistributedConfig& strategy);

// Whether the decoder layers' full tensors and messages keep their memory from one layer to the
// next and between steps: megatron_fsdp's fsdp_double_buffer, where layers come and go (level 3).
bool reuses_buffers(const config::DistributedConfig& strategy);

// Whether a unit's gradients are reduced while backward goes on, and not all units' when it is
// over: always, but for megatron_fsdp's levels 0 and 1 with overlap_grad_reduce = false.
bool overlaps_reduction(const config::DistributedConfig& strategy);

// How many units ahead of the one that computes are being gathered.
//
//   fsdp2          enable_fsdp2_prefetch: its depths; else one in both directions on a GPU, where
//                  PyTorch overlaps gathers with the unit before by itself, and none on the host
//   megatron_fsdp  one forward with overlap_param_gather; at level 3 one in both directions
//   ddp            none
struct PrefetchDepths {
  int64_t forward = 0;
  int64_t backward = 0;
};
PrefetchDepths prefetch_depths(const config::DistributedConfig& strategy);

}  // namespace am::planner
