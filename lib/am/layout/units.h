// Divides FSDP units into parts that are gathered together, and determines the points of a step at
// which units are gathered and freed. The memory model and the runtime call these functions.
#pragma once

#include <cstdint>
#include <vector>

#include "am/config/strategy_config.h"
#include "am/layout/layout.h"
#include "am/mesh/layout.h"
#include "am/model/inventory.h"

namespace am::layout {

// Parameters that one all-gather gathers, and whose gradients one collective reduces.
struct GatheredPart {
  std::vector<int> parameters;  // indices into Layout::parameters
  bool experts = false;         // sharded over the experts' group of ranks (Layout::by_ranks)
  bool quantized = false;
};
// Divides the parameters `indices` of a rank into parts, in the order in which the runtime gathers
// the parts. The first part contains the parameters that are neither experts nor quantized, and may
// be empty. No other part is empty.
std::vector<GatheredPart> gathered_parts(const Layout& layout, const std::vector<int>& indices,
                                         int64_t rank);

// Returns, for each unit, whether its gathered parameters are freed after forward.
//
//   fsdp2          by default: true for all but the last layer, the head and the root, whose
//                  parameters backward needs first. In a pipeline (`pp` > 1) false for all, as in
//                  torchtitan: otherwise each micro-batch would gather the units again.
//                  If the plan sets reshard_after_forward: false for the root, and for all other
//                  units the plan's value, where a number means true.
//   megatron_fsdp  true for all at ZeRO level 3; false for all at lower levels
//   ddp, megatron  false for all
std::vector<bool> reshard_after_forward(const config::DistributedConfig& strategy,
                                        const std::vector<model::Unit>& units, int64_t pp);

// Returns N, the number of ranks over which a unit is resharded after forward, if the plan sets
// reshard_after_forward = N. Returns 0 if the plan sets no number, or if N is not less than the
// dp_shard * cp ranks of the unit.
int64_t post_forward_size(const config::DistributedConfig& strategy, const mesh::MeshSizes& sizes);
// Overload for parameters that are sharded over a group of `ranks` ranks, for example experts over
// ep_shard. `size` is the result of the other overload. Returns `size`, or 0 if `size` is not less
// than `ranks` or does not divide `ranks`.
int64_t post_forward_size(int64_t size, int64_t ranks);

// Whether shards, their gradients and optimizer states are in host memory while a GPU computes:
// fsdp2's offload_policy. False under the backend "gloo", where everything is in host memory.
bool offloads_to_host(const config::DistributedConfig& strategy);

// Whether a decoder layer reuses the buffers that other layers have freed, for full parameters and
// for communication. True under megatron_fsdp at ZeRO level 3 with fsdp_double_buffer.
bool reuses_buffers(const config::DistributedConfig& strategy);

// Whether a unit's gradients are reduced during backward instead of after it. Returns
// overlap_grad_reduce under megatron and at ZeRO levels 0 and 1 of megatron_fsdp, otherwise true.
bool overlaps_reduction(const config::DistributedConfig& strategy);

// Number of FSDP units that are gathered ahead of the unit that computes.
//
//   fsdp2          with enable_fsdp2_prefetch the plan's depths; else on a GPU one in both
//                  directions, because PyTorch by default overlaps a gather with the computation
//                  of the previous unit, and on the CPU none
//   megatron_fsdp  at level 0 none; at levels 1 and 2 one in forward with overlap_param_gather; at
//                  level 3 one in both directions
//   megatron       with zero > 0 and overlap_param_gather one in forward; else none
//   ddp            none
struct PrefetchDepths {
  int64_t forward = 0;
  int64_t backward = 0;
};
PrefetchDepths prefetch_depths(const config::DistributedConfig& strategy);

}  // namespace am::layout
