// Memory of each unit of a rank's model during a step: the sizes that memory.cpp walks through.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "am/config/plan.h"
#include "am/layout/layout.h"
#include "am/model/config.h"
#include "am/pipeline/action.h"
#include "am/predict/memory/activations.h"
#include "am/predict/memory/memory.h"

namespace am::predict {

// One unit on this rank. All sizes are in bytes.
struct UnitBytes {
  std::string name;
  int layer = -1;
  int stage = 0;               // pipeline stage
  bool reshards = true;        // freed after forward
  bool backward_runs = true;   // the unit, or one before it, has trained parameters
  bool fills_buckets = false;  // has gradients that are packed by bucket or ignored by FSDP
  bool looked_up = false;      // the embedding: its backward needs no parameters
  // The tied head: its gradient is added to the embedding's at the end of backward.
  bool waits_for_end = false;
  double full = 0;  // gathered parameters, if they have separate storage
  // The largest gradient of one parameter, in the compute dtype; gradients are packed one by one.
  double gradient = 0;
  double gather_buffer = 0;  // input copy and output of the all-gather
  // Largest part of gather_buffer that is live together with all of `full`: experts under expert
  // parallelism are gathered separately, after the other parameters.
  double gathering = 0;
  double kept = 0;  // part of the gathered parameters that is kept between forward and backward
  double reduce_buffer = 0;  // buffer into which gradients are packed: input of the reduction
  double reduced = 0;        // output of the reduction, if that is not the stored gradient
  // Gradients of the parameters that the rank stores, on the device: allocated when the first of
  // them is packed, and when they are reduced.
  double packed_gradients = 0;
  double reduced_gradients = 0;
  double activations = 0;  // saved by the forward of one micro-batch
  double recomputed = 0;   // live only during this unit's backward
  BackwardBytes backward;  // live only during this unit's backward
  // Memory held for deferred weight gradients, in total and at the moments of BackwardBytes.
  double owed = 0;
  double owed_first = 0;
  double owed_later = 0;
  double owed_attention = 0;
  double orthogonalizing = 0;  // live while Muon updates the unit's matrices
  // Elements that the rank stores of the unit: all, trained ones, and optimizer state.
  int64_t stored_numel = 0;
  int64_t trained_numel = 0;
  int64_t state_numel = 0;

  // Live while the next unit computes.
  double pending() const { return reduce_buffer + reduced; }
  double gradients() const { return packed_gradients + reduced_gradients; }
};

struct StepUnits {
  std::vector<UnitBytes> units;  // in forward order; a tied head is a separate unit
  // Memory that belongs to no unit: gradients that are packed by bucket or ignored by FSDP, live
  // from the first of them in backward on, and the buffers that layers share, live all the time.
  double bucket_buffers = 0;
  double pooled_parameters = 0;
  double pooled_messages = 0;
  double ignored = 0;       // unsharded parameters that FSDP ignores, if they have separate storage
  bool head_trains = true;  // the head's weight is trained (if tied: the embedding's)
  int64_t stages = 1;       // number of pipeline stages on this rank
  // Elements that the rank stores: all parameters, trained ones, and optimizer state.
  int64_t stored_numel = 0;
  int64_t trained_numel = 0;
  int64_t state_numel = 0;
};

// The rank whose step is walked through.
struct WalkedRank {
  int64_t rank = 0;
  int64_t stage = 0;      // index along pp
  int64_t in_layout = 0;  // the rank's number in the layout, which may be the layout of one stage
  bool has_head = true;
  // For a pipeline: actions that the rank executes (stages.h), and the pp index of each stage's
  // rank. Null: one stage.
  const std::vector<pipeline::Slot>* list = nullptr;
  std::vector<int64_t> owners = {};
};
// Returns the peak of a rank with these units (memory.h).
RankMemory walk_step(const config::Plan& plan, const model::ModelConfig& config,
                     const layout::Layout& layout, const ActivationContext& context, StepUnits step,
                     const WalkedRank& who);

// Formulas are evaluated in double. Their sources are named in the source file and in
// layer_activations.cpp.
StepUnits measure_units(const config::Plan& plan, const model::ModelConfig& config,
                        const layout::Layout& layout, int64_t rank,
                        const ActivationContext& context);

}  // namespace am::predict
