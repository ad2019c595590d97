// The loss on other data while training goes on: [validation].
//
//   Validation validation(plan, model);
//   if (validation.due(step + 1)) metrics.validation_loss = validation.loss();
//
// The samples are the first ones of the data, in order, the same every time and under every layout.
// Forward passes alone: no graph, no gradients, nothing of training's data or parameters changes.
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
  // Collective. `plan` with its batch filled in and validation.every > 0; `model` must outlive it.
  // Throws as data::open_token_source, and Error(kPlan) where a rank reads other data than rank 0.
  Validation(const config::Plan& plan, parallel::ParallelModel& model, const runtime::World& world);

  // Whether there is one after so many steps: every validation.every, and after the last.
  bool due(int64_t steps) const;
  // The sum of the label cross-entropies over the number of labels; collective, the same on every
  // rank.
  double loss();

  // For the log: "text: 3 files, 12 345 tokens".
  const std::string& description() const { return description_; }

 private:
  config::Plan plan_;  // whose [data] is validation's
  parallel::ParallelModel& model_;
  BatchSizes sizes_;
  std::string description_;
  std::unique_ptr<DataBatches> batches_;
};

}  // namespace am::train
