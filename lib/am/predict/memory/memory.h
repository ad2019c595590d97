// Predicted memory per rank. States are exact to the byte compared with the runtime's allocations;
// everything else is computed by formula.
//
// The prediction walks through a step unit by unit: gather, compute, free, loss, backward, reduce.
// At each moment it adds up all live tensors; the largest sum is the peak. The components are those
// of one moment, which is named, so their sum is the peak.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "am/config/plan.h"
#include "am/layout/layout.h"
#include "am/model/config.h"

namespace am::predict {

// Components saturate at this value; a saturated component is not a prediction.
inline constexpr int64_t kMostBytes = 4'000'000'000'000'000'000;

// Components in bytes. The sources of the formulas are named in memory.cpp and activations.cpp.
struct MemoryComponents {
  int64_t parameters = 0;  // sharded storage, padding included
  int64_t gradients = 0;   // same layout and dtype as the parameters
  int64_t optimizer = 0;   // optimizer state: for AdamW two moments of the parameters' layout
  // Saved for backward: all layers, one micro-batch (times the micro-batches in flight).
  int64_t activations = 0;
  int64_t logits = 0;     // logits, their gradient and the loss's working copy
  int64_t unsharded = 0;  // gathered units, and one of their gradients
  // Buffers of all-gather and reduce-scatter, with the unsharded gradients in them.
  int64_t communication = 0;
  // RoPE's table; on the CPU also the copy of the rank's part of a checkpoint (checkpoint.async).
  int64_t other = 0;
  // With a GPU: parameters, gradients and optimizer under offload_policy, and the copy of the
  // rank's part of a checkpoint, in host memory.
  int64_t host = 0;
  int64_t host_parameters = 0;  // the parameters' part of `host`

  int64_t total() const;  // without `host`
  bool is_in_range() const { return total() < kMostBytes; }
};

struct RankMemory {
  int64_t rank = 0;
  int64_t stage = 0;   // index along pp
  std::string moment;  // moment of the peak: "loss", "backward of model.layers.3"
  MemoryComponents components;
};

// Routing assumption. kSkewed: all tokens are routed to the same experts, the worst case for
// memory, because an expert's backward needs memory for its rows. Affects nothing else.
enum class Routing { kEven, kSkewed };

RankMemory estimate_memory(const config::Plan& plan, const model::ModelConfig& config,
                           const layout::Layout& layout, int64_t rank,
                           Routing routing = Routing::kEven);

// Whether gradients stay unsharded between micro-batches because they are reduced only after the
// last one (config::defers_gradient_sync).
bool keeps_whole_gradients(const config::Plan& plan, const mesh::MeshSizes& sizes);

// Returns the rank with the largest peak at each pp index. It is the first rank of the index: piece
// 0 along an axis is never shorter than the others.
std::vector<RankMemory> worst_of_stages(const config::Plan& plan, const model::ModelConfig& config,
                                        const layout::Layout& layout);

}  // namespace am::predict
