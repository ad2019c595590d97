// Predicts the memory of a rank. The predicted bytes of parameters, gradients and optimizer states
// equal the runtime's allocations; all other bytes are computed by formulas.
//
// The prediction simulates a training step, one FSDP unit after the other: gather, forward, free,
// loss, backward, reduce. At each moment the simulation adds up all live tensors; the largest sum
// is the peak. The reported components are those of the peak's moment, so their sum is the peak.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "am/config/plan.h"
#include "am/layout/layout.h"
#include "am/model/config.h"

namespace am::predict {

// Upper limit of predicted bytes, which only absurdly large plans reach. A result of this size or
// more is invalid (MemoryComponents::is_in_range).
inline constexpr int64_t kMostBytes = 4'000'000'000'000'000'000;

// Bytes of one rank at one moment, by what they store.
struct MemoryComponents {
  int64_t parameters = 0;  // stored (sharded) parameters with their padding
  // Stored gradients, in the layout and dtype of the parameters. Allocated during backward, when
  // gradients are packed (copied into the buffer of their reduction) or reduced, and freed when the
  // next step begins.
  int64_t gradients = 0;
  int64_t optimizer = 0;  // optimizer states, for example AdamW's two moments
  // Activations that all layers of the rank save for backward, for all micro-batches in flight.
  int64_t activations = 0;
  int64_t logits = 0;  // logits, their gradient and the loss's working copy
  // Gathered parameters of FSDP units, copies (in the compute dtype) of parameters that FSDP
  // ignores, and full gradients before they are packed.
  int64_t unsharded = 0;
  // Buffers of all-gather and reduce-scatter, including the unsharded gradients that are packed
  // into them. During the optimizer's update: the buffers of Muon.
  int64_t communication = 0;
  // RoPE's table. On GPUs also cuBLAS's workspace; on the CPU also the copy of the rank's part of a
  // checkpoint (checkpoint.async).
  int64_t other = 0;
  // Host memory of a rank with a GPU: the copy of the rank's part of a checkpoint
  // (checkpoint.async) and, under offload_policy, parameters, gradients and optimizer states.
  int64_t host = 0;
  int64_t host_parameters = 0;  // bytes of `host` that are parameters

  // Returns the sum of all members that are device memory (or CPU memory if the CPU computes): all
  // but `host` and `host_parameters`. Returns INT64_MAX if the sum overflows.
  int64_t total() const;
  bool is_in_range() const { return total() < kMostBytes; }
};

struct RankMemory {
  int64_t rank = 0;
  int64_t stage = 0;   // the rank's index along pp
  std::string moment;  // moment of the peak, for example "backward of model.layers.3"
  MemoryComponents components;
};

// Assumption about the routing of tokens to experts. kEven: all experts get equally many tokens.
// kSkewed: all tokens are routed to the same experts, which is the worst case for memory.
enum class Routing { kEven, kSkewed };

// Returns the memory of `rank` at the peak of a training step.
RankMemory estimate_memory(const config::Plan& plan, const model::ModelConfig& config,
                           const layout::Layout& layout, int64_t rank,
                           Routing routing = Routing::kEven);

// Whether gradients stay unsharded from one micro-batch to the next, because they are reduced only
// after the step's last micro-batch (config::defers_gradient_sync). False for steps of one
// micro-batch.
bool keeps_whole_gradients(const config::Plan& plan, const mesh::MeshSizes& sizes);

// Returns, for each index along pp, the memory of the rank with the largest peak. The function
// computes only the first rank with each index: shard 0 of a tensor is never smaller than the other
// shards.
std::vector<RankMemory> worst_of_stages(const config::Plan& plan, const model::ModelConfig& config,
                                        const layout::Layout& layout);

}  // namespace am::predict
