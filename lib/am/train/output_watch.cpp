#include "am/train/output_watch.h"

#include <algorithm>
#include <utility>

namespace am::train {

namespace {

std::string name_of(const parallel::StageModel& stage, const nn::UnitUse& use, bool last) {
  const model::Inventory& inventory = stage.layout().inventory;
  const std::string& name = stage.layout().units[static_cast<size_t>(use.unit)].name;
  if (name.empty()) {  // the root unit, whose module is the final norm
    for (const model::ParameterSpec& parameter : inventory.parameters) {
      if (parameter.role == model::Role::kFinalNorm) return parameter.module();
    }
  }
  return last && inventory.tied_lm_head ? name + " (head)" : name;
}

}  // namespace

OutputWatch::OutputWatch(parallel::StageModel& stage, Visit visit)
    : stage_(stage),
      inner_(stage.decoder().hooks()),
      visit_(std::move(visit)),
      calls_(stage.decoder().unit_uses().size(), 0) {
  stage.decoder().set_hooks(this);
}

OutputWatch::~OutputWatch() { stage_.decoder().set_hooks(inner_); }

void OutputWatch::begin() { std::fill(calls_.begin(), calls_.end(), 0); }

void OutputWatch::before_unit(size_t use, std::span<at::Tensor> inputs) {
  if (inner_ != nullptr) inner_->before_unit(use, inputs);
}

void OutputWatch::after_unit(size_t use, std::span<at::Tensor> outputs) {
  const layout::StageRange& range = stage_.range();
  const bool is_head = range.head && use + 1 == calls_.size();
  const int64_t first = range.embedding ? 0 : range.first + 1;
  visit_({.use = use,
          .call = calls_[use]++,
          .place = first + static_cast<int64_t>(use),
          .is_head = is_head,
          .name = name_of(stage_, stage_.decoder().unit_uses()[use], is_head),
          .output = outputs.front().detach()});
  if (inner_ != nullptr) inner_->after_unit(use, outputs);
}

}  // namespace am::train
