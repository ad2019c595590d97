// Sums the live memory at each moment of a rank's step and keeps the peak. Shared by the walk
// through units (memory.cpp) and the walk through a pipeline's actions (pipeline_memory.cpp).
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
  // All arguments except `step` and `who` must outlive the object.
  MemoryMoments(const config::Plan& plan, const model::ModelConfig& config,
                const layout::Layout& layout, const ActivationContext& context, StepUnits step,
                const WalkedRank& who);

 protected:
  // Live bytes at one moment, without parameters and optimizer state.
  struct MemorySnapshot {
    double gradients = 0;  // of the parameters that the rank stores, once they are reduced
    double activations = 0;
    double logits = 0;
    double unsharded = 0;
    double communication = 0;

    double sum() const { return gradients + activations + logits + unsharded + communication; }
    bool operator==(const MemorySnapshot&) const = default;
  };

  // Compares a moment with the peak. Its name is `what` + `of` + `how`, which must outlive the
  // object.
  void record_moment(std::string_view what, std::string_view of, std::string_view how,
                     const MemorySnapshot& moment) {
    // Most moments are well below the peak, or equal to it: skip rounding their parts.
    constexpr double kRounding = 8.0;
    if (moment.sum() < fullest_.sum() - kRounding || moment == fullest_) return;
    record_full(what, of, how, moment);
  }
  // A unit's backward has three phases, each with a function. First phase: recomputation, up to the
  // first activation gradients. Adds both to `computing`.
  void begin_backward(const UnitBytes& unit, const BackwardBytes& gradients,
                      MemorySnapshot& computing);
  // Records the first moment: `computing` plus a parameter's gradient, or plus the buffer into
  // which gradients are packed.
  void record_first(const UnitBytes& unit, const BackwardBytes& gradients, MemorySnapshot computing,
                    double gradient, double buffer);
  // Records the last moments, without a parameter's gradient: rows sent back from experts, and
  // attention.
  void end_backward(const UnitBytes& unit, const BackwardBytes& gradients,
                    MemorySnapshot computing);
  // Records the optimizer's update, with the gradients of all units. AdamW and similar optimizers
  // update in place; Muon needs buffers for one unit at a time. Validation needs no moment: it is
  // the forward of a training step without saved activations and gradients.
  void update();
  // Activation gradients of a unit's backward. `is_last`: the unit is the model's last, which has
  // the head.
  BackwardBytes gradients_of(const UnitBytes& unit, bool is_last) const;

  const config::Plan& plan_;
  const model::ModelConfig& config_;
  const layout::Layout& layout_;
  ActivationContext context_;
  double vocabulary_ = 0.0;  // this rank's slice of the vocabulary; 0 on stages without the head
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
  MemorySnapshot fullest_{.activations = -1.0};  // below every real moment
  std::string_view what_, of_, how_;
};

// Walks through the actions of the rank's schedule (WalkedRank::list).
RankMemory walk_pipeline(const config::Plan& plan, const model::ModelConfig& config,
                         const layout::Layout& layout, const ActivationContext& context,
                         StepUnits step, const WalkedRank& who);

}  // namespace am::predict
