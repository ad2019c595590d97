#include "am/parallel/stage_model.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <utility>

#include "am/base/error.h"
#include "am/base/text.h"
#include "am/parallel/cp/context_parallel.h"
#include "am/parallel/strategy.h"
#include "am/parallel/tp/vocabulary.h"
#include "am/tensor/memory_meter.h"
#include "am/tensor/redistribute.h"

namespace am::parallel {

StageModel::StageModel(const config::Plan& plan, const model::ModelConfig& config,
                       const layout::Layout& layout, const layout::StageRange& range,
                       const runtime::DeviceMesh& mesh, const std::string& strategy)
    : config_(config), layout_(layout), mesh_(mesh), decoder_(config_, layout_.inventory, range) {
  Parallelized made = find_parallel_strategy(strategy)({decoder_, plan, layout_, mesh_});
  if (!made.data_parallel) {
    throw Error(ErrorKind::kUsage,
                cat("the strategy \"", strategy, "\" did not set up data parallelism"),
                "call apply_fsdp_sharding_recursively in the strategy");
  }
  data_parallel_ = std::move(made.data_parallel);
  vocabulary_slice_ = made.vocabulary_slice;
  loss_terms_ = {plan.train.label_smoothing, plan.train.z_loss, config_.vocab_size};
  output_dtype_ = made.output_dtype;
}

at::Tensor StageModel::forward(const at::Tensor& ids_BT, const at::Tensor& positions_BT,
                               const at::Tensor& hidden_BTD) {
  at::Tensor output = decoder_(ids_BT, positions_BT, hidden_BTD);
  // output_dtype applies to the model's output: hidden states between stages keep their dtype.
  return output_dtype_ && range().head ? output.to(*output_dtype_) : output;
}

at::Tensor StageModel::own_labels(const at::Tensor& labels_BT) const {
  return decoder_.sequence_part().of(labels_BT, kIgnoreIndex);
}

at::Tensor StageModel::whole_sequences(const at::Tensor& logits_BTv) const {
  return cp::whole_sequences(logits_BTv, decoder_.sequence_part(), mesh_.group("cp"));
}

at::Tensor StageModel::loss_sum(const at::Tensor& logits_BTv, const at::Tensor& labels_BT) const {
  const tensor::MemoryUse use(tensor::TensorUse::kLogits);
  if (vocabulary_slice_.size != config_.vocab_size) {
    return tp::cross_entropy_sum(logits_BTv, labels_BT, vocabulary_slice_, config_.vocab_size,
                                 kIgnoreIndex, mesh_.group("tp"), loss_terms_);
  }
  return nn::fused::cross_entropy_sum(logits_BTv, labels_BT, {0, kIgnoreIndex}, {}, loss_terms_);
}

at::Tensor StageModel::full_logits(const at::Tensor& logits_BTv) const {
  if (vocabulary_slice_.size == config_.vocab_size) return logits_BTv.detach();
  return tensor::all_gather_dim(logits_BTv.detach(), -1, config_.vocab_size, mesh_.group("tp"));
}

}  // namespace am::parallel
