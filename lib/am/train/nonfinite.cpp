#include "am/train/nonfinite.h"

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <tuple>
#include <utility>
#include <vector>

#include "am/base/error.h"
#include "am/base/json.h"
#include "am/base/ranks.h"
#include "am/base/text.h"
#include "am/layout/precision.h"
#include "am/optim/from_plan.h"
#include "am/tensor/finite.h"
#include "am/train/output_watch.h"

namespace am::train {

namespace {

using parallel::ParallelModel;

std::optional<optim::GradScaler> make_scaler(const config::Plan& plan) {
  if (!layout::scales_loss(plan)) return std::nullopt;
  optim::GradScalerOptions options;
  if (plan.train.loss_scale > 0.0) {
    options.init_scale = plan.train.loss_scale;
    options.dynamic = false;
  }
  return optim::GradScaler(options);
}

// Returns the name of this rank's first parameter with a non-finite value; empty if all values are
// finite. With `trained_alone`, checks only trainable parameters. of_group(g) returns the values of
// ParamGroup g that are checked: the group's parameters or gradients as one flat tensor, or the
// magnitudes of a quantized group (ParamGroup::magnitudes()).
template <typename OfGroup>
std::string first_broken(ParallelModel& model, bool trained_alone, const OfGroup& of_group) {
  const auto& groups = model.groups();
  for (size_t g = 0; g < groups.size(); ++g) {
    const at::Tensor flat = of_group(g);
    if (tensor::all_finite(flat)) continue;
    for (size_t i = 0; i < groups[g]->owned().size(); ++i) {
      const auto& owned = groups[g]->owned()[i];
      if (trained_alone && !owned.trainable) continue;
      const at::Tensor values =
          groups[g]->quantized() ? groups[g]->value_of(owned) : groups[g]->view_in(flat, i);
      if (!tensor::all_finite(values)) return owned.name;
    }
  }
  return {};
}

// Returns the name of this rank's first parameter with an optimizer state that is not finite; empty
// if there is none.
std::string first_broken_state(const ParallelModel& model, const optim::Optimizer& optimizer) {
  const auto& groups = model.groups();
  for (size_t g = 0; g < groups.size(); ++g) {
    for (size_t i = 0; i < groups[g]->owned().size(); ++i) {
      for (const auto& state : optim::parameter_state(optimizer, model, g, i)) {
        if (!tensor::all_finite(state.value)) return groups[g]->owned()[i].name;
      }
    }
  }
  return {};
}

// The reports of all ranks. A rank reports "loss", or the name of a parameter whose value, gradient
// or optimizer state is not finite.
struct Broken {
  std::string first;           // the first reported parameter in the model's order; may be empty
  std::vector<int64_t> ranks;  // ranks with a report
};

// Gathers the reports of all ranks. `mine`: this rank's report; empty if its values are finite.
// Collective.
Broken gather(const ParallelModel& model, const std::string& mine) {
  const std::vector<std::string> names = model.mesh().group("world").all_gather_text(mine);
  Broken broken;
  for (size_t rank = 0; rank < names.size(); ++rank) {
    if (!names[rank].empty()) broken.ranks.push_back(static_cast<int64_t>(rank));
  }
  for (const auto& parameter : model.layout().parameters) {
    if (std::find(names.begin(), names.end(), parameter.name) == names.end()) continue;
    broken.first = parameter.name;
    break;
  }
  return broken;
}

std::string value_text(double value) {
  if (std::isfinite(value)) return cat(value);
  return std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf";
}

// Identifies the output of an FSDP unit in the forward pass of one micro-batch.
struct OutputPlace {
  int64_t micro_batch = 0;
  int64_t unit = 0;  // index in the forward pass of the full model (UnitOutput::place)
  int64_t stage = 0;
  std::string name;

  auto order() const { return std::tuple(micro_batch, unit); }
};

}  // namespace

StepGuard::StepGuard(const config::Plan& plan, ParallelModel& model,
                     const optim::Optimizer& optimizer,
                     std::function<void(const std::string& line)> log)
    : on_nonfinite_(plan.train.on_nonfinite),
      model_(model),
      optimizer_(optimizer),
      log_(std::move(log)),
      scaler_(make_scaler(plan)) {}

optim::GradScaler::Verdict StepGuard::judge(const observe::StepMetrics& metrics) {
  const bool finite_norm = std::isfinite(metrics.grad_norm);
  // If the loss is not finite, a smaller loss scale does not help.
  if (!std::isfinite(metrics.loss)) return Verdict::kExhausted;
  if (scaler_) return scaler_->update(!finite_norm);
  return finite_norm ? Verdict::kStep : Verdict::kExhausted;
}

bool StepGuard::allows_update(const at::Tensor& own_loss, observe::StepMetrics& metrics,
                              const std::function<std::string()>& first_output) {
  if (scaler_) metrics.loss_scale = scaler_->scale();
  const Verdict verdict = judge(metrics);
  const bool update =
      verdict == Verdict::kStep || (verdict == Verdict::kExhausted && on_nonfinite_ == "continue");
  if (verdict == Verdict::kBackOff) {
    skip(metrics, cat("a gradient overflows float16; the loss scale is now ", scaler_->scale()));
  } else if (!update && on_nonfinite_ == "skip") {
    refuse_broken_state(metrics);
    skip(metrics,
         cat("loss ", value_text(metrics.loss), ", gradient norm ", value_text(metrics.grad_norm)));
  } else if (!update) {
    throw Error(ErrorKind::kNumeric,
                cat("step ", metrics.step, ": ", describe(own_loss, metrics, first_output)),
                advice() + ", or skip such steps with train.on_nonfinite = \"skip\"");
  }
  metrics.skipped_steps = skipped_;
  return update;
}

std::string StepGuard::advice() const {
  return cat(has_checkpoint_ ? "the last checkpoint was saved before this step: continue from it"
                             : "no checkpoint was saved: start again",
             " with a lower optimizer.lr or a longer warm-up");
}

// Throws if a parameter or an optimizer state is not finite, because all further steps would be
// skipped.
void StepGuard::refuse_broken_state(const observe::StepMetrics& metrics) {
  const std::string broken = broken_state();
  if (broken.empty()) return;
  throw Error(
      ErrorKind::kNumeric,
      cat("step ", metrics.step, ": ", broken, " is not finite, and no later step can repair it"),
      advice());
}

void StepGuard::skip(const observe::StepMetrics& metrics, const std::string& why) {
  ++skipped_;
  log_(cat("skipped     step ", metrics.step, ": ", why, "; ", skipped_, " so far"));
}

std::string StepGuard::describe(const at::Tensor& own_loss, const observe::StepMetrics& metrics,
                                const std::function<std::string()>& first_output) {
  std::vector<std::string> parts;
  if (const std::string output = first_output ? first_output() : ""; !output.empty()) {
    parts.push_back(output + " is not finite");
  }
  const Broken losses = gather(model_, std::isfinite(own_loss.item<double>()) ? "" : "loss");
  if (!std::isfinite(metrics.loss)) {
    parts.push_back(
        cat("the loss is ", value_text(metrics.loss), " on ", ranks_text(losses.ranks)));
  }
  if (!std::isfinite(metrics.grad_norm)) {
    const auto& groups = model_.groups();
    const Broken gradients = gather(
        model_, first_broken(model_, true, [&](size_t g) { return groups[g]->flat_grad(); }));
    parts.push_back(cat("the gradient norm is ", value_text(metrics.grad_norm)));
    if (!gradients.ranks.empty()) {
      parts.push_back(cat("gradients are not finite on ", ranks_text(gradients.ranks),
                          " (first: ", gradients.first, ")"));
    }
  }
  if (scaler_) parts.push_back(cat("the loss scale is ", scaler_->scale()));
  return join(parts, "; ");
}

std::string StepGuard::broken_state() {
  const auto& groups = model_.groups();
  const Broken parameters = gather(
      model_, first_broken(model_, false, [&](size_t g) { return groups[g]->magnitudes(); }));
  if (!parameters.ranks.empty()) {
    return cat(parameters.first, " on ", ranks_text(parameters.ranks));
  }
  const Broken states = gather(model_, first_broken_state(model_, optimizer_));
  if (states.ranks.empty()) return {};
  return cat("the optimizer state of ", states.first, " on ", ranks_text(states.ranks));
}

bool StepGuard::allows_writing(const std::string& what) {
  const std::string broken = broken_state();
  if (broken.empty()) return true;
  const std::string message = cat(what, " is not written: ", broken, " is not finite");
  if (on_nonfinite_ != "continue") throw Error(ErrorKind::kNumeric, message, advice());
  log_(cat("note        ", message));
  return false;
}

void StepGuard::write_to(run_folder::CheckpointInfo& info) const {
  info.skipped_steps = skipped_;
  if (!scaler_) return;
  info.loss_scale = {scaler_->state().scale, scaler_->state().growth_tracker};
}

void StepGuard::resume_from(const run_folder::CheckpointInfo& info) {
  note_checkpoint();
  skipped_ = info.skipped_steps;
  if (!scaler_ || !info.loss_scale) return;
  scaler_->restore({info.loss_scale->scale, info.loss_scale->growth_tracker});
}

std::string first_nonfinite_output(parallel::ParallelModel& model, BatchSource& batches,
                                   int64_t step, int64_t micro_batches) {
  std::optional<OutputPlace> mine;
  std::vector<std::unique_ptr<OutputWatch>> watches;
  for (const auto& [number, stage] : model.stages()) {
    watches.push_back(
        std::make_unique<OutputWatch>(*stage, [&, number = number](const UnitOutput& unit) {
          OutputPlace place{unit.call, unit.place, number, unit.name};
          if (mine && mine->order() <= place.order()) return;
          if (!tensor::all_finite(unit.output)) mine = std::move(place);
        }));
  }
  BatchesOfSteps again(batches, step, 1, micro_batches);
  model.forward_only(again);
  Json said;
  if (mine) said = {mine->micro_batch, mine->unit, mine->stage, mine->name};
  const auto all = model.mesh().group("world").all_gather_text(said.dump());
  std::optional<OutputPlace> first;
  size_t rank = 0;
  for (size_t r = 0; r < all.size(); ++r) {
    const Json each = Json::parse(all[r]);
    if (each.is_null()) continue;
    OutputPlace place{each[0], each[1], each[2], each[3]};
    if (first && first->order() <= place.order()) continue;
    first = std::move(place);
    rank = r;
  }
  if (!first) return {};
  return cat("the output of ", first->name, " in micro-batch ", first->micro_batch, " on rank ",
             rank, " (stage ", first->stage, ")");
}

}  // namespace am::train
