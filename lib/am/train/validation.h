// Loss on validation data during training: the plan's [validation].
//
//   Validation validation(plan, model, world);
//   if (validation.due(step + 1)) metrics.validation_loss = validation.loss();
//
// The samples are the first ones of the data, in order, the same every time and under every layout.
// Only forward passes run, without a graph; training's data, parameters and gradients are
// unchanged.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "am/config/plan.h"
#include "am/parallel/parallel_model.h"
#include "am/runtime/world.h"
#include "am/train/data_batches.h"
#include "am/train/setup.h"

namespace am::train {

class Validation {
 public:
  // Collective. Requires train.global_batch_size (with_batch in resume.h) and validation.every > 0
  // in `plan`; `model` must outlive this object. Throws the errors of data::open_token_source, and
  // Error(kPlan) if a rank reads other data than rank 0.
  Validation(const config::Plan& plan, parallel::ParallelModel& model, const runtime::World& world);

  // Whether to validate after `steps` steps: every validation.every, and after the last.
  bool due(int64_t steps) const;
  // Returns the sum of the label cross-entropies divided by the number of labels. Collective; the
  // same on every rank.
  double loss();

  // For the log: "text: 3 files, 12 345 tokens".
  const std::string& description() const { return description_; }

 private:
  config::Plan plan_;  // with validation's data
  parallel::ParallelModel& model_;
  BatchSizes sizes_;
  std::string description_;
  std::unique_ptr<DataBatches> batches_;
};

}  // namespace am::train
