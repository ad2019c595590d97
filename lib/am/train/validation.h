// Computes the loss on validation data during training, as the plan's [validation] says.
//
//   Validation validation(plan, model, world);
//   if (validation.due(step + 1)) metrics.validation_loss = validation.loss(step + 1);
//   if (validation.is_over()) ...                    // validation.patience
//
// The samples are the first ones of the validation data in order, each at most once. They are the
// same every time and under every layout. Only forward passes run, without a graph, so the
// parameters and the position in the training data do not change.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "am/config/plan.h"
#include "am/parallel/parallel_model.h"
#include "am/run_folder/checkpoint_info.h"
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
  // Returns the mean cross-entropy of the labels after `steps` steps, the same number on every
  // rank. Collective.
  double loss(int64_t steps);
  // Whether the last validation.patience losses were not below the lowest loss before them.
  bool is_over() const;

  // Save the losses so far to a checkpoint, and restore them if they are of the same data.
  void write_to(run_folder::CheckpointInfo& info) const;
  void resume_from(const run_folder::CheckpointInfo& info);

  // Returns a description of the data for the log, for example "text: 3 files, 12 345 tokens; 1 024
  // labels in 8 batches".
  const std::string& description() const { return description_; }

 private:
  config::Plan plan_;  // the plan with the validation data in place of the training data
  parallel::ParallelModel& model_;
  BatchSizes sizes_;
  int64_t steps_ = 0;   // number of global batches
  int64_t labels_ = 0;  // number of labels in them
  std::string data_;    // differs for other data
  std::optional<run_folder::CheckpointInfo::Validated> validated_;
  int64_t validated_step_ = -1;  // step of validated_->loss
  std::string description_;
  std::unique_ptr<DataBatches> batches_;
};

}  // namespace am::train
