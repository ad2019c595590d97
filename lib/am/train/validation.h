// Computes the loss on validation data during training, as the plan's [validation] says.
//
//   Validation validation(plan, model, world);
//   if (validation.due(step + 1)) metrics.validation_loss = validation.loss();
//
// The samples are the first ones of the validation data in order. They are the same every time and
// under every layout. Only forward passes run, without a graph, so the parameters and the position
// in the training data do not change.
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
  // Opens the validation data. Requires train.global_batch_size (with_batch in resume.h) and
  // validation.every > 0 in `plan`; `model` must outlive this object. Throws the errors of
  // data::open_token_source, and Error(kPlan) if a rank reads other data than rank 0. Collective.
  Validation(const config::Plan& plan, parallel::ParallelModel& model, const runtime::World& world);

  // Whether to validate after `steps` steps: after every validation.every steps, and after the last
  // step.
  bool due(int64_t steps) const;
  // Returns the mean cross-entropy of the labels, the same number on every rank. Collective.
  double loss();

  // Returns a description of the data for the log, for example "text: 3 files, 12 345 tokens".
  const std::string& description() const { return description_; }

 private:
  config::Plan plan_;  // the plan with the validation data in place of the training data
  parallel::ParallelModel& model_;
  BatchSizes sizes_;
  std::string description_;
  std::unique_ptr<DataBatches> batches_;
};

}  // namespace am::train
