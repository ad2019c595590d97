// Computes the memory that each FSDP unit of a rank's model needs during a step. step_walk.cpp
// simulates the step with these units.
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

// One FSDP unit on a rank. All sizes are in bytes, except numbers of elements (`..._numel`).
struct UnitBytes {
  std::string name;
  int layer = -1;              // number of the decoder layer; -1: not a decoder layer
  int stage = 0;               // pipeline stage
  bool reshards = true;        // gathered parameters are freed after forward
  bool backward_runs = true;   // the unit, or one before it, has trained parameters
  bool fills_buckets = false;  // backward packs gradients of the unit into bucket_buffers
  bool looked_up = false;      // the unit is the embedding
  bool backward_reads = true;  // backward needs the unit's parameters
  // The unit is the tied head, whose gradient is added to the embedding's at the end of backward.
  bool waits_for_end = false;
  double full = 0;  // gathered parameters; 0 if the stored parameters are used for computation
  // Largest gradient of one parameter, in the compute dtype. Backward packs each gradient (copies
  // it into the tensor that is reduced) as soon as it is computed, so only one full gradient of the
  // unit is live at a time.
  double gradient = 0;
  double gather_buffer = 0;  // output of the all-gather, and its input if the input is a copy
  // Peak bytes during the gather, minus `full`. If the unit is gathered at once, these are
  // gather_buffer and the scratch memory in which parameters are dequantized. If it is gathered in
  // parts, because quantized parameters and experts under expert parallelism follow the others, the
  // value may be less than gather_buffer.
  double gathering = 0;
  double kept = 0;  // part of the gathered parameters that is kept between forward and backward
  double reduce_buffer = 0;  // buffer into which gradients are packed: input of the reduction
  double reduced = 0;        // output of the reduction, if it is not the stored gradient itself
  // Stored gradients (of the parameter elements that the rank stores), if they are on the device.
  // packed_gradients are allocated when the unit's first gradient is packed, reduced_gradients when
  // the unit's gradients are reduced.
  double packed_gradients = 0;
  double reduced_gradients = 0;
  // Stored gradients of buckets that backward begins to fill between two experts: after the
  // gradients of one expert, and before those of another. Like packed_gradients, they are allocated
  // when the bucket's first gradient is packed.
  double inner_gradients = 0;
  // Stored gradients of buckets whose first gradient is the feed-forward's last gradient or belongs
  // to attention. Without a pipeline, they count as live from the end of the layer's backward.
  double late_gradients = 0;
  double activations = 0;  // tensors that the forward of one micro-batch saves
  double passing = 0;      // tensors of experts that are live only during this unit's forward
  double recomputed = 0;   // recomputed activations, live only during this unit's backward
  BackwardBytes backward;  // activation gradients, live only during this unit's backward
  // Tensors that are kept for deferred weight gradients (LayerActivations::Owed). `owed` counts all
  // of them; the other members count those that exist at the moments `first`, `later` and
  // `attention` of BackwardBytes.
  double owed = 0;
  double owed_first = 0;
  double owed_later = 0;
  double owed_attention = 0;
  double orthogonalizing = 0;  // buffers of Muon while it updates the unit's matrices
  // Numbers of elements of the unit that the rank stores: all parameters, quantized parameters,
  // trained parameters, and optimizer state.
  int64_t stored_numel = 0;
  int64_t quantized_numel = 0;
  int64_t trained_numel = 0;
  int64_t state_numel = 0;

  // Returns the bytes of this unit's reduction, which are live while the next unit computes.
  double pending() const { return reduce_buffer + reduced; }
  // Returns the bytes of stored gradients that are allocated when gradients are packed, without the
  // reduction's buffer.
  double all_packed() const { return packed_gradients + inner_gradients + late_gradients; }
  double gradients() const { return all_packed() + reduced_gradients; }
};

struct StepUnits {
  std::vector<UnitBytes> units;  // the rank's units in forward order; a tied head is its own unit
  // Buffers of gradients that are reduced in buckets, or whose parameters FSDP ignores. The buffers
  // are live as soon as backward has computed the first of these gradients.
  double bucket_buffers = 0;
  // Buffers that all layers share and that are live during the whole step: for gathered parameters,
  // and for the messages of gathers and reductions.
  double pooled_parameters = 0;
  double pooled_messages = 0;
  // Copies, in the compute dtype, of the parameters that FSDP ignores; 0 if the stored parameters
  // are used for computation.
  double ignored = 0;
  bool head_trains = true;  // the head's weight is trained (if tied: the embedding's)
  int64_t stages = 1;       // number of pipeline stages on this rank
  // Numbers of elements that the rank stores: all parameters, quantized parameters, trained
  // parameters, and optimizer state.
  int64_t stored_numel = 0;
  int64_t quantized_numel = 0;
  int64_t trained_numel = 0;
  int64_t state_numel = 0;
};

// The rank whose step walk_step() simulates.
struct WalkedRank {
  int64_t rank = 0;
  int64_t stage = 0;  // the rank's index along pp
  // The rank's number in the layout that is passed to walk_step(). It differs from `rank` if this
  // layout has only one of the pipeline's stages.
  int64_t in_layout = 0;
  // Actions that the rank of a pipeline executes (layout/stages.h); null: no pipeline.
  const std::vector<pipeline::Slot>* list = nullptr;
  std::vector<int64_t> owners = {0};  // for each stage: the index along pp of the rank that runs it
};
// Returns the peak memory (memory.h) of the rank `who`. `step`: the result of measure_units() for
// this rank.
RankMemory walk_step(const config::Plan& plan, const model::ModelConfig& config,
                     const layout::Layout& layout, const ActivationContext& context,
                     const StepUnits& step, const WalkedRank& who);

// Returns the units of a rank with their sizes. The formulas compute in double, because bytes of
// absurdly large plans would overflow int64_t.
StepUnits measure_units(const config::Plan& plan, const model::ModelConfig& config,
                        const layout::Layout& layout, int64_t rank,
                        const ActivationContext& context);

}  // namespace am::predict
