#include "am/train/validation.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "am/base/fault.h"
#include "am/base/number.h"
#include "am/base/text.h"
#include "am/base/units.h"
#include "am/data/from_plan.h"
#include "am/train/resume.h"

namespace am::train {

Validation::Validation(const config::Plan& plan, parallel::ParallelModel& model,
                       const runtime::World& world)
    : plan_(data::with_validation_data(plan)),
      model_(model),
      sizes_(batch_sizes(plan, model.layout().mesh.sizes())) {
  auto reader =
      std::make_unique<data::BatchReader>(data::open_batches(plan_, model.config().vocab_size));
  if (!plan_.data.is_synthetic()) {
    agree_on_facts({{"validation.tokens", reader->tokens()},
                    {"validation.fingerprint", reader->fingerprint()}},
                   world);
  }
  const int64_t all = ceil_div(reader->sampler().size().value(), plan_.train.global_batch_size);
  steps_ = plan_.validation.steps > 0 ? std::min(plan_.validation.steps, all) : all;
  description_ = reader->descriptions().front();
  data_ = cat(plan_.data.is_synthetic() ? "" : reader->fingerprint(), " ", steps_);
  batches_ = std::make_unique<DataBatches>(plan_, std::move(reader), model.mesh(), 0, 0,
                                           model.config().vocab_size);
  for (int64_t step = 0; step < steps_; ++step) labels_ += batches_->labels(step);
  description_ += cat("; ", format_count(labels_), labels_ == 1 ? " label in " : " labels in ",
                      format_count(steps_), steps_ == 1 ? " batch" : " batches");
}

bool Validation::due(int64_t steps) const {
  return steps % plan_.validation.every == 0 || steps == plan_.train.max_steps;
}

double Validation::loss(int64_t steps) {
  const runtime::DeviceMesh& mesh = model_.mesh();
  BatchesOfSteps all(*batches_, /*first_step=*/0, steps_, sizes_.micro_batches);
  model_.zero_grad();  // frees the gradients, which the update has used
  const at::Tensor sum = model_.forward_only(all);
  // Without a backward, the forward leaves the last FSDP units gathered.
  model_.reshard();
  // All ranks of a tp group have the same loss, so only the first of them adds it.
  if (mesh.group("tp").index() != 0) sum.zero_();
  mesh.group("world").all_reduce(sum);
  const int64_t times = fault::is_planted(fault::Fault::kValidationTwice) ? 2 : 1;
  const double loss = sum.item<double>() / as_double(times * labels_);
  const bool finite = std::isfinite(loss);
  if (finite && (!validated_ || loss < validated_->best)) {
    validated_ = {loss, loss, 0, data_};
  } else if (validated_) {
    validated_->loss = finite ? std::optional(loss) : std::nullopt;
    ++validated_->since_best;
  }
  validated_step_ = steps;
  return loss;
}

bool Validation::is_over() const {
  const int64_t patience = plan_.validation.patience;
  return patience > 0 && validated_ && validated_->since_best >= patience;
}

void Validation::write_to(run_folder::CheckpointInfo& info) const {
  info.validated = validated_;
  if (info.validated && validated_step_ != info.step) info.validated->loss.reset();
}

void Validation::resume_from(const run_folder::CheckpointInfo& info) {
  if (info.validated && info.validated->data == data_) validated_ = info.validated;
  validated_step_ = info.step;
}

}  // namespace am::train
