// Adds up what is alive at each moment of a rank's step and keeps the fullest: the part that a walk
// through units (memory.cpp) and one through a pipeline's actions (pipeline_memory.cpp) share.
#pragma once

#include <string_view>

#include "am/config/plan.h"
#include "am/model/config.h"
#include "am/planner/activations.h"
#include "am/planner/layout.h"
#include "am/planner/memory.h"
#include "am/planner/step_units.h"

namespace am::planner {

class MemoryMoments {
 public:
  // All but `step` and `who` must outlive it.
  MemoryMoments(const config::Plan& plan, const model::ModelConfig& config, const Layout& layout,
                const ActivationContext& context, StepUnits step, const WalkedRank& who);

 protected:
  // Bytes beside the states.
  struct Moment {
    double activations = 0;
    double logits = 0;
    double unsharded = 0;
    double communication = 0;

    double sum() const { return activations + logits + unsharded + communication; }
    bool operator==(const Moment&) const = default;
  };

  // Named `what` + `of` + `how`, which outlive this.
  void record_moment(std::string_view what, std::string_view of, std::string_view how,
                     const Moment& moment) {
    // Most moments are far from the fullest, or it once more: no need to round each part of them.
    constexpr double kRounding = 8.0;
    if (moment.sum() < fullest_.sum() - kRounding || moment == fullest_) return;
    record_full(what, of, how, moment);
  }
  // Of a unit's backward in three parts. Until its own computing begins: `computing` gets what is
  // computed again and the first of its gradients.
  void begin_backward(const UnitBytes& unit, const BackwardBytes& gradients, Moment& computing);
  // The first moment: beside `computing` a parameter's gradient, or the buffer that it is packed
  // into.
  void record_first(const UnitBytes& unit, const BackwardBytes& gradients, Moment computing,
                    double gradient, double buffer);
  // The last ones, without any parameter's gradient: when rows go back from experts, and attention.
  void end_backward(const UnitBytes& unit, const BackwardBytes& gradients, Moment computing);
  // AdamW and its like update in place, and what Muon needs is there for one unit at a time.
  // Validation has no moment of its own: it is the forward of a training step without what backward
  // would need, while states and gradients are as they are in training.
  void update();
  // What a unit's backward adds. `is_last`: of the model, where the head is.
  BackwardBytes gradients_of(const UnitBytes& unit, bool is_last) const;

  const config::Plan& plan_;
  const model::ModelConfig& config_;
  const Layout& layout_;
  ActivationContext context_;
  double vocabulary_ = 0.0;  // this rank's slice at the head; 0 on stages without it
  StepUnits step_;
  const std::vector<UnitBytes>& units_;
  // What is alive between two units: gathered parameters that were not freed, what is saved for
  // units whose backward has not run yet, messages that wait for the end. While a unit runs, what
  // it needs itself comes on top of it.
  Moment now_;

  RankMemory peak() const;

 private:
  void record_full(std::string_view what, std::string_view of, std::string_view how,
                   const Moment& moment);
  void fill_states();
  double head_rows(int64_t rank) const;

  MemoryComponents base_;  // states, the same all through the step
  RankMemory peak_;
  Moment fullest_{.activations = -1.0};  // before any
  std::string_view what_, of_, how_;
};

// Through the actions of the rank's schedule (WalkedRank::list).
RankMemory walk_pipeline(const config::Plan& plan, const model::ModelConfig& config,
                         const Layout& layout, const ActivationContext& context, StepUnits step,
                         const WalkedRank& who);

}  // namespace am::planner
