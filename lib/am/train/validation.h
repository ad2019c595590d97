// Computes the loss on validation data during training, as the plan's section [validation]
// specifies.
//
//   Validation validation(plan, model, world);
//   if (validation.due(step + 1)) validation.run(metrics);
//   if (validation.is_over()) ...                    // validation.patience
//
// Every validation reads the first samples of the validation data in order, each at most once,
// under every layout. Only forward passes run, without an autograd graph. A validation does not
// change the parameters or the position in the training data.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "am/config/plan.h"
#include "am/observe/metrics.h"
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
  // data::open_batches, and Error(kPlan) if a rank reads other data than rank 0. Collective.
  Validation(const config::Plan& plan, parallel::ParallelModel& model, const runtime::World& world);

  // Whether run() must be called after `steps` finished steps: after every validation.every steps,
  // and after step train.max_steps.
  bool due(int64_t steps) const;
  // Validates after step metrics.step. Sets metrics.validation_loss, the mean cross-entropy per
  // label, and metrics.validation_losses, the losses of the named sets. The losses are equal on all
  // ranks. Collective.
  void run(observe::StepMetrics& metrics);
  // Whether training must end, because none of the last validation.patience losses was below the
  // lowest earlier loss. Always false if validation.patience is 0.
  bool is_over() const;

  // write_to() saves the last and the lowest loss to a checkpoint's info. resume_from() restores
  // them if they were computed on the same data as this job's.
  void write_to(run_folder::CheckpointInfo& info) const;
  void resume_from(const run_folder::CheckpointInfo& info);

  // Returns a description of each data set for the log, for example "text: 3 files, 12 345 tokens;
  // 1 024 labels in 8 batches".
  const std::vector<std::string>& descriptions() const { return descriptions_; }

 private:
  struct Set {
    std::string name;  // empty for the data of validation.path
    // Whether validation_loss includes this set. If validation.path is set, validation_loss
    // includes only the data at this path; otherwise it includes all sets.
    bool counts = false;
    config::Plan plan;   // the plan with this set in place of the training data
    int64_t steps = 0;   // number of global batches that are read
    int64_t labels = 0;  // number of labels in these batches that the loss counts
    std::unique_ptr<DataBatches> batches;
  };

  void open(const std::string& name, config::Plan plan, const runtime::World& world);
  // Returns the sum of cross-entropies over the labels of a set. Collective.
  double loss_sum(Set& set);

  const config::ValidationSection& section() const { return sets_.front()->plan.validation; }

  parallel::ParallelModel& model_;
  BatchSizes sizes_;
  // The data of validation.path, if it is set, come first. Each Set stays at one address, because
  // DataBatches keeps a reference to Set::plan.
  std::vector<std::unique_ptr<Set>> sets_;
  int64_t last_step_ = 0;
  std::string data_;  // fingerprints and numbers of batches of the sets in validation_loss
  std::optional<run_folder::CheckpointInfo::Validated> validated_;
  int64_t validated_step_ = -1;  // step after which validated_->loss was computed
  std::vector<std::string> descriptions_;
};

}  // namespace am::train
