#include "am/parallel/parallel_model.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <utility>

#include "am/base/error.h"
#include "am/base/text.h"
#include "am/nn/fused/cross_entropy.h"
#include "am/parallel/strategy.h"
#include "am/parallel/tp/pieces.h"
#include "am/parallel/tp/vocabulary.h"
#include "am/tensor/memory_meter.h"
#include "am/tensor/redistribute.h"

namespace am::parallel {

ParallelModel::ParallelModel(const model::ModelConfig& config, const planner::Layout& layout,
                             const runtime::DeviceMesh& mesh)
    : config_(config), layout_(layout), mesh_(mesh), decoder_(config_, layout_.inventory) {}

std::unique_ptr<ParallelModel> ParallelModel::build(const config::Plan& plan,
                                                    const model::ModelConfig& config,
                                                    const planner::Layout& layout,
                                                    const runtime::DeviceMesh& mesh,
                                                    const std::string& strategy) {
  const std::string name = strategy.empty() ? config::strategy_name(plan.strategy) : strategy;
  const ParallelStrategy parallelize = find_parallel_strategy(name);
  std::unique_ptr<ParallelModel> model(new ParallelModel(config, layout, mesh));
  Parallelized made = parallelize({model->decoder_, plan, model->layout_, mesh});
  if (!made.data_parallel) {
    throw Error(ErrorKind::kUsage, cat("the strategy \"", name, "\" made no data parallelism"),
                "apply_fsdp_sharding_recursively makes it");
  }
  model->data_parallel_ = std::move(made.data_parallel);
  model->vocabulary_slice_ = made.vocabulary_slice;
  model->output_dtype_ = made.output_dtype;
  return model;
}

at::Tensor ParallelModel::forward(const at::Tensor& ids_BT, const at::Tensor& positions_BT) {
  at::Tensor logits = decoder_(ids_BT, positions_BT);
  return output_dtype_ ? logits.to(*output_dtype_) : logits;
}

at::Tensor ParallelModel::loss_sum(const at::Tensor& logits_BTv,
                                   const at::Tensor& labels_BT) const {
  const tensor::MemoryUse use(tensor::TensorUse::kLogits);
  if (vocabulary_slice_.size != config_.vocab_size) {
    return tp::cross_entropy_sum(logits_BTv, labels_BT, vocabulary_slice_, config_.vocab_size,
                                 kIgnoreIndex, mesh_.group("tp"));
  }
  return nn::fused::cross_entropy_sum(logits_BTv, labels_BT, {0, kIgnoreIndex});
}

at::Tensor ParallelModel::full_logits(const at::Tensor& logits_BTv) const {
  if (vocabulary_slice_.size == config_.vocab_size) return logits_BTv.detach();
  return tensor::all_gather_dim(logits_BTv.detach(), -1, config_.vocab_size, mesh_.group("tp"));
}

void ParallelModel::for_each_owned(
    const std::function<void(ParamGroup&, size_t, const OwnedParameter&)>& visit) {
  for (auto& group : data_parallel_->groups()) {
    for (size_t i = 0; i < group->owned().size(); ++i) visit(*group, i, group->owned()[i]);
  }
}

at::Tensor ParallelModel::gather_from(
    const std::string& name, const std::function<at::Tensor(const ParamGroup&)>& flat_of) const {
  const auto layout = std::find_if(layout_.parameters.begin(), layout_.parameters.end(),
                                   [&](const auto& each) { return each.name == name; });
  for (const auto& group : data_parallel_->groups()) {
    for (const auto& owned : group->owned()) {
      if (owned.name != name) continue;
      // The cuts in reverse: first dp_shard_cp, then tp. From host memory where it is offloaded.
      at::Tensor full = group->pieces().view(flat_of(*group), owned.piece).to(mesh_.device());
      if (layout->fsdp) {
        const Shape tp_shape = layout->tp_shape(mesh_.layout(), mesh_.rank());
        full = tensor::all_gather_dim(full, layout->fsdp_dim,
                                      tp_shape.at(static_cast<size_t>(layout->fsdp_dim)),
                                      mesh_.group("dp_shard_cp"));
      }
      return tp::gather_parameter(full, *layout, mesh_);
    }
  }
  throw Error(ErrorKind::kUsage, cat("no parameter named ", name));
}

at::Tensor ParallelModel::full_parameter(const std::string& name) const {
  return gather_from(name, [](const ParamGroup& group) { return group.flat(); });
}

at::Tensor ParallelModel::full_gradient(const std::string& name) const {
  return gather_from(name, [](const ParamGroup& group) { return group.flat_grad(); });
}

}  // namespace am::parallel
