// Sums the live memory at each moment of a rank's step and remembers the peak. Base class of the
// walk through the FSDP units of a rank without pipeline (memory.cpp) and of the walk through a
// pipeline's actions (pipeline_memory.cpp).
#pragma once

#include <string_view>

#include "am/config/plan.h"
#include "am/layout/layout.h"
#include "am/model/config.h"
#include "am/predict/memory/activations.h"
#include "am/predict/memory/memory.h"
#include "am/predict/memory/step_units.h"

namespace am::predict {

class MemoryMoments {
 public:
  // `plan`, `config` and `layout` must outlive the object.
  MemoryMoments(const config::Plan& plan, const model::ModelConfig& config,
                const layout::Layout& layout, const ActivationContext& context, StepUnits step,
                const WalkedRank& who);

 protected:
  // Live bytes at one moment, without parameters and optimizer state.
  struct MemorySnapshot {
    double gradients = 0;  // stored gradients of the parameters that the rank stores
    double activations = 0;
    double logits = 0;
    double unsharded = 0;
    double communication = 0;

    double sum() const { return gradients + activations + logits + unsharded + communication; }
    bool operator==(const MemorySnapshot&) const = default;
  };

  // Makes `moment` the peak if it needs more memory than the peak so far. The moment's name is
  // `what` + `of` + `how`; the three texts must outlive the object.
  void record_moment(std::string_view what, std::string_view of, std::string_view how,
                     const MemorySnapshot& moment) {
    // Most moments are well below the peak or equal to it. Returning here saves the rounding of
    // their components to bytes.
    constexpr double kRounding = 8.0;
    if (moment.sum() < fullest_.sum() - kRounding || moment == fullest_) return;
    record_full(what, of, how, moment);
  }
  // The next three functions record the moments of one unit's backward, in this order.
  // begin_backward() adds the recomputed activations and then the first activation gradients to
  // `computing`. With expert parallelism it records a moment between these two.
  void begin_backward(const UnitBytes& unit, const BackwardBytes& gradients,
                      MemorySnapshot& computing);
  // Records the moment BackwardBytes::first: `computing` plus the tensors into which gradients are
  // packed, if `gradients` say that they are live; else plus a parameter's `gradient`. These
  // tensors are the stored gradients (`stored` bytes), or the reduction's `buffer`.
  void record_first(const UnitBytes& unit, const BackwardBytes& gradients, MemorySnapshot computing,
                    double gradient, double stored, double buffer);
  // Records the two last moments, at which no parameter's gradient is live:
  // BackwardBytes::rows_return and BackwardBytes::attention.
  void end_backward(const UnitBytes& unit, const BackwardBytes& gradients,
                    MemorySnapshot computing);
  // Records the optimizer's update, at which the gradients of all units are live. AdamW and similar
  // optimizers update in place; Muon needs buffers for one unit at a time. Validation is not
  // recorded: it needs less memory than a training step's forward, because it saves no activations
  // and has no gradients.
  void update();
  // Returns the bytes of activation gradients in a unit's backward. `is_last`: the unit is the last
  // one of the model, which contains the head.
  BackwardBytes gradients_of(const UnitBytes& unit, bool is_last) const;

  const config::Plan& plan_;
  const model::ModelConfig& config_;
  const layout::Layout& layout_;
  ActivationContext context_;
  // Size of this rank's slice of the vocabulary; 0 on stages without the head.
  double vocabulary_ = 0.0;
  StepUnits step_;
  const std::vector<UnitBytes>& units_;
  // Memory that is live between two units: gathered parameters that are not yet freed, saved
  // activations of units whose backward has not run, communication buffers that are held until the
  // end. A running unit's own memory is added to it.
  MemorySnapshot now_;

  RankMemory peak() const;

 private:
  void record_full(std::string_view what, std::string_view of, std::string_view how,
                   const MemorySnapshot& moment);
  void fill_states();
  double head_rows(int64_t rank) const;

  MemoryComponents base_;  // memory that is constant during the step
  RankMemory peak_;
  MemorySnapshot fullest_{.activations = -1.0};  // less than every recorded moment
  std::string_view what_, of_, how_;
};

// Walks through the actions of the rank's schedule (WalkedRank::list).
RankMemory walk_pipeline(const config::Plan& plan, const model::ModelConfig& config,
                         const layout::Layout& layout, const ActivationContext& context,
                         StepUnits step, const WalkedRank& who);

}  // namespace am::predict
