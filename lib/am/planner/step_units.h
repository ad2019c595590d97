// What each unit of a rank's model takes while a step runs: the sizes that memory.cpp walks
// through.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "am/config/plan.h"
#include "am/model/config.h"
#include "am/pipeline/action.h"
#include "am/planner/activations.h"
#include "am/planner/layout.h"
#include "am/planner/memory.h"

namespace am::planner {

// One unit on this rank. All sizes in bytes.
struct UnitBytes {
  std::string name;
  int layer = -1;
  int stage = 0;               // of the pipeline
  bool reshards = true;        // freed after forward
  bool backward_runs = true;   // it or a unit before it has something to train
  bool fills_buckets = false;  // it has gradients that are packed by bucket or ignored by FSDP
  bool looked_up = false;      // the embedding: its backward needs no parameters
  bool waits_for_end =
      false;                 // the tied head: its gradient meets the embedding's when backward ends
  double full = 0;           // gathered parameters, when they are storage of their own
  double gradient = 0;       // the largest of one parameter, compute dtype: they leave one by one
  double gather_buffer = 0;  // all-gather's input copy and output
  double gathering = 0;      // of it what is there with all of `full`, at most: experts that ep
                             // places are gathered by themselves, behind the others
  double kept = 0;           // of the gathered parameters, between forward and backward
  double reduce_buffer = 0;  // what the gradients are packed into: the reduction's input
  double reduced = 0;        // its output, where that is not the stored gradient
  double activations = 0;    // saved in forward, of one micro-batch
  double recomputed = 0;     // live in this unit's backward only
  BackwardBytes backward;    // likewise
  // What its matrices' gradients read, where they are made later than the others; of it what
  // backward has made by the moments of BackwardBytes.
  double owed = 0;
  double owed_first = 0;
  double owed_later = 0;
  double owed_attention = 0;
  double orthogonalizing = 0;  // while Muon updates its matrices
  // Elements that the rank stores of it, of those that train, and of the optimizer's state.
  int64_t stored_numel = 0;
  int64_t trained_numel = 0;
  int64_t state_numel = 0;

  // In flight while the next unit computes.
  double pending() const { return reduce_buffer + reduced; }
};

struct StepUnits {
  std::vector<UnitBytes> units;  // in forward order; a tied head is one of its own
  // What lives apart from any unit: gradients that are packed by bucket or ignored by FSDP, from
  // the first one of backward on, and the buffers that layers take turns in, all the time.
  double bucket_buffers = 0;
  double pooled_parameters = 0;
  double pooled_messages = 0;
  double ignored = 0;  // full tensors of what FSDP ignores, where they are storage of their own
  bool head_trains = true;  // or, where it is tied, the embedding
  int64_t stages = 1;       // of the pipeline, on this rank
  // Elements of all parameters that the rank stores, of those that it trains, and of the
  // optimizer's state.
  int64_t stored_numel = 0;
  int64_t trained_numel = 0;
  int64_t state_numel = 0;
};

// Whose step is walked through.
struct WalkedRank {
  int64_t rank = 0;
  int64_t stage = 0;      // index along pp
  int64_t in_layout = 0;  // the rank's number in the layout, which may be that of one stage
  bool has_head = true;
  // Of a pipeline: what the rank executes (stages.h), and who has each stage. Null: one stage.
  const std::vector<pipeline::Slot>* list = nullptr;
  std::vector<int64_t> owners = {};
};
// The peak of a rank with these units (memory.h).
RankMemory walk_step(const config::Plan& plan, const model::ModelConfig& config,
                     const Layout& layout, const ActivationContext& context, StepUnits step,
                     const WalkedRank& who);

// Formulas run in double. Sources stand at each in the source file and in layer_activations.cpp.
StepUnits measure_units(const config::Plan& plan, const model::ModelConfig& config,
                        const Layout& layout, int64_t rank, const ActivationContext& context);

}  // namespace am::planner
