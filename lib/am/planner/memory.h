// Memory per rank: states exact to the byte against what the runtime allocates, the rest by
// formula.
//
// A step is walked through unit by unit: gather, compute, free, loss, backward, reduce. At each
// moment everything that is alive is added up, and the largest sum is the peak. So the components
// belong to one moment, which is named, and their sum is the peak.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "am/config/plan.h"
#include "am/model/config.h"
#include "am/planner/layout.h"

namespace am::planner {

// Where a component saturates: then it is not a prediction.
inline constexpr int64_t kMostBytes = 4'000'000'000'000'000'000;

// Bytes. The sources of the formulas are named at each, in memory.cpp and activations.cpp.
struct MemoryComponents {
  int64_t parameters = 0;  // sharded storage, padding included
  int64_t gradients = 0;   // same layout and dtype
  int64_t optimizer = 0;   // its state: AdamW's two moments like the parameters
  int64_t activations =
      0;                  // saved for backward, all layers, one micro-batch (times those in flight)
  int64_t logits = 0;     // logits, their gradient and the loss's working copy
  int64_t unsharded = 0;  // gathered units in flight, and a gradient of theirs
  int64_t communication = 0;  // all-gather and reduce-scatter buffers, gradients kept whole in them
  int64_t other = 0;          // the rotary embedding's table; what staging.h says, on the host
  int64_t host = 0;  // parameters, gradients and optimizer with offload_policy: in host memory;
                     // staging.h's beside a GPU
  int64_t host_parameters = 0;  // of these

  int64_t total() const;  // without `host`
  bool is_in_range() const { return total() < kMostBytes; }
};

struct RankMemory {
  int64_t rank = 0;
  int64_t stage = 0;   // index along pp
  std::string moment;  // when the peak is reached: "loss", "backward of model.layers.3"
  MemoryComponents components;
};

// How tokens take experts. Under kSkewed all of them take the same ones, which is the fullest that
// a step can be: an expert's backward needs memory for its rows. Nothing else depends on it.
enum class Routing { kEven, kSkewed };

RankMemory estimate_memory(const config::Plan& plan, const model::ModelConfig& config,
                           const Layout& layout, int64_t rank, Routing routing = Routing::kEven);

// Whether gradients stay whole between micro-batches, because their reduction waits for the last
// one (config::defers_gradient_sync).
bool keeps_whole_gradients(const config::Plan& plan, const mesh::MeshSizes& sizes);

// The worst rank of each pipeline position, by position. It is the first: no piece of a parameter
// is longer than that of index 0 along its axis.
std::vector<RankMemory> worst_of_stages(const config::Plan& plan, const model::ModelConfig& config,
                                        const Layout& layout);

}  // namespace am::planner
