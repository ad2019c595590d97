#include "am/train/validation.h"

#include <ATen/ATen.h>

#include <utility>

#include "am/data/from_plan.h"
#include "am/train/resume.h"

namespace am::train {

namespace {

// Returns the plan with the validation data in place of the training data. Synthetic tokens depend
// on the seed, so another seed gives tokens that training does not see.
config::Plan with_validation_data(config::Plan plan) {
  plan.data.path = plan.validation.path;
  plan.data.shuffle = false;
  plan.train.seed += 1;
  return plan;
}

}  // namespace

Validation::Validation(const config::Plan& plan, parallel::ParallelModel& model,
                       const runtime::World& world)
    : plan_(with_validation_data(plan)),
      model_(model),
      sizes_(batch_sizes(plan, model.layout().mesh.sizes())) {
  auto reader =
      std::make_unique<data::BatchReader>(data::open_batches(plan_, model.config().vocab_size));
  const data::SampleSource& samples = reader->samples();
  description_ = samples.description();
  if (!plan_.data.is_synthetic()) {
    agree_on_facts({{"validation.tokens", samples.tokens()},
                    {"validation.fingerprint", samples.fingerprint()}},
                   world);
  }
  batches_ = std::make_unique<DataBatches>(plan_, std::move(reader), model.mesh(), 0, 0,
                                           model.config().vocab_size);
}

bool Validation::due(int64_t steps) const {
  return steps % plan_.validation.every == 0 || steps == plan_.train.max_steps;
}

double Validation::loss() {
  const runtime::DeviceMesh& mesh = model_.mesh();
  BatchesOfSteps all(*batches_, /*first_step=*/0, plan_.validation.steps, sizes_.micro_batches);
  model_.zero_grad();  // frees the gradients, which the update has used
  const at::Tensor sum = model_.forward_only(all);
  // Without a backward, the forward leaves the last FSDP units gathered.
  model_.reshard();
  // All ranks of a tp group have the same loss, so only the first of them adds it.
  if (mesh.group("tp").index() != 0) sum.zero_();
  mesh.group("world").all_reduce(sum);
  int64_t labels = 0;
  for (int64_t step = 0; step < plan_.validation.steps; ++step) labels += batches_->labels(step);
  return sum.item<double>() / static_cast<double>(labels);
}

}  // namespace am::train
