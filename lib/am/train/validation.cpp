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
    : model_(model),
      sizes_(batch_sizes(plan, model.layout().mesh.sizes())),
      last_step_(plan.train.max_steps) {
  for (auto& [name, set] : data::validation_plans(plan)) open(name, std::move(set), world);
}

void Validation::open(const std::string& name, config::Plan plan, const runtime::World& world) {
  Set& set = *sets_.emplace_back(std::make_unique<Set>());
  set.name = name;
  set.counts = name.empty() || !sets_.front()->name.empty();
  set.plan = std::move(plan);
  auto reader =
      std::make_unique<data::BatchReader>(data::open_batches(set.plan, model_.config().vocab_size));
  const std::string label = name.empty() ? "" : cat(name, ": ");
  if (!set.plan.data.is_synthetic()) {
    const std::string facts = cat("validation.", name.empty() ? "" : cat("set.", name, "."));
    agree_on_facts({{cat(facts, "tokens"), reader->tokens()},
                    {cat(facts, "fingerprint"), reader->fingerprint()}},
                   world);
  }
  const int64_t all = ceil_div(reader->sampler().size().value(), set.plan.train.global_batch_size);
  set.steps = section().steps > 0 ? std::min(section().steps, all) : all;
  std::string description = cat(label, reader->descriptions().front());
  if (set.counts) {
    data_ += cat(set.plan.data.is_synthetic() ? "" : reader->fingerprint(), " ", set.steps);
  }
  set.batches = std::make_unique<DataBatches>(set.plan, std::move(reader), model_.mesh(), 0, 0,
                                              model_.config().vocab_size);
  for (int64_t step = 0; step < set.steps; ++step) set.labels += set.batches->labels(step);
  description += cat("; ", format_count(set.labels), set.labels == 1 ? " label in " : " labels in ",
                     format_count(set.steps), set.steps == 1 ? " batch" : " batches");
  descriptions_.push_back(std::move(description));
}

bool Validation::due(int64_t steps) const {
  return steps % section().every == 0 || steps == last_step_;
}

double Validation::loss_sum(Set& set) {
  const runtime::DeviceMesh& mesh = model_.mesh();
  BatchesOfSteps all(*set.batches, /*first_step=*/0, set.steps, sizes_.micro_batches);
  model_.zero_grad();  // frees the gradients, which the update no longer needs
  const at::Tensor sum = model_.forward_only(all);
  // The last FSDP units stay gathered after forward, because no backward follows.
  model_.reshard();
  // All ranks of a tp group have the same loss, so only the first rank of the group adds the loss.
  if (mesh.group("tp").index() != 0) sum.zero_();
  mesh.group("world").all_reduce(sum);
  return sum.item<double>();
}

void Validation::run(observe::StepMetrics& metrics) {
  const int64_t times = fault::is_planted(fault::Fault::kValidationTwice) ? 2 : 1;
  double sum = 0.0;
  int64_t labels = 0;
  for (const auto& set : sets_) {
    const double of_set = loss_sum(*set);
    if (!set->name.empty()) {
      metrics.validation_losses.emplace_back(set->name, of_set / as_double(times * set->labels));
    }
    if (!set->counts) continue;
    sum += of_set;
    labels += set->labels;
  }
  const double loss = sum / as_double(times * labels);
  metrics.validation_loss = loss;
  const bool finite = std::isfinite(loss);
  if (finite && (!validated_ || loss < validated_->best)) {
    validated_ = {loss, loss, 0, data_};
  } else if (validated_) {
    validated_->loss = finite ? std::optional(loss) : std::nullopt;
    ++validated_->since_best;
  }
  validated_step_ = metrics.step;
}

bool Validation::is_over() const {
  const int64_t patience = section().patience;
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
