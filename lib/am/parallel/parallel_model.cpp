#include "am/parallel/parallel_model.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <utility>

#include "am/base/error.h"
#include "am/base/text.h"
#include "am/nn/fused/cross_entropy.h"
#include "am/parallel/cp/context_parallel.h"
#include "am/parallel/strategy.h"
#include "am/parallel/sync_ctx.h"
#include "am/parallel/tp/pieces.h"
#include "am/parallel/tp/vocabulary.h"
#include "am/tensor/memory_meter.h"
#include "am/tensor/redistribute.h"

namespace am::parallel {

ParallelModel::ParallelModel(const model::ModelConfig& config, const planner::Layout& layout,
                             const planner::StageRange& range, const runtime::DeviceMesh& mesh)
    : config_(config), layout_(layout), mesh_(mesh), decoder_(config_, layout_.inventory, range) {}

std::unique_ptr<ParallelModel> ParallelModel::build(const config::Plan& plan,
                                                    const model::ModelConfig& config,
                                                    const planner::Layout& layout,
                                                    const runtime::DeviceMesh& mesh,
                                                    const std::string& strategy) {
  const auto range = planner::StageRange::whole(config.num_hidden_layers);
  std::unique_ptr<ParallelModel> model(new ParallelModel(config, layout, range, mesh));
  model->parallelize(plan, strategy.empty() ? config::strategy_name(plan.strategy) : strategy);
  return model;
}

std::unique_ptr<ParallelModel> ParallelModel::build_stage(const config::Plan& plan,
                                                          const model::ModelConfig& config,
                                                          const planner::Layout& layout, int stage,
                                                          const runtime::DeviceMesh& mesh) {
  std::unique_ptr<ParallelModel> model(new ParallelModel(
      config, planner::stage_layout(layout, stage), planner::stage_range(layout, stage), mesh));
  model->parallelize(plan, config::strategy_name(plan.strategy));
  return model;
}

void ParallelModel::parallelize(const config::Plan& plan, const std::string& strategy) {
  Parallelized made = find_parallel_strategy(strategy)({decoder_, plan, layout_, mesh_});
  if (!made.data_parallel) {
    throw Error(ErrorKind::kUsage, cat("the strategy \"", strategy, "\" made no data parallelism"),
                "apply_fsdp_sharding_recursively makes it");
  }
  strategy_ = plan.strategy;
  data_parallel_ = std::move(made.data_parallel);
  vocabulary_slice_ = made.vocabulary_slice;
  output_dtype_ = made.output_dtype;
}

at::Tensor ParallelModel::no_loss() const {
  return at::zeros({1}, at::TensorOptions(at::kDouble).device(mesh_.device()));
}

at::Tensor ParallelModel::forward_backward(MicroBatches& batches, const PassOptions& options) {
  at::Tensor sum = no_loss();
  const int64_t count = batches.count();
  for (int64_t m = 0; m < count; ++m) sum.add_(run(batches.read(m), options, m + 1 == count));
  end_dropout();
  return sum;
}

at::Tensor ParallelModel::forward_only(MicroBatches& batches) {
  const at::NoGradGuard no_grad;
  at::Tensor sum = no_loss();
  for (int64_t m = 0; m < batches.count(); ++m) {
    const MicroBatch batch = batches.read(m);
    sum.add_(loss_sum(forward(batch.ids_BT, batch.positions_BT), own_labels(batch.labels_BT)));
  }
  return sum;
}

// Forward and backward of one micro-batch; the sum of its label cross-entropies.
at::Tensor ParallelModel::run(MicroBatch batch, const PassOptions& options, bool last) {
  const auto over = [&](const char* phase) {
    if (last && options.phase_over) options.phase_over(phase);
  };
  const auto sync =
      get_sync_ctx(*data_parallel_, strategy_, /*is_optim_step=*/last && options.reduce,
                   config::defers_gradient_sync(strategy_));
  begin_dropout(options.seed, options.step, batch.first_sequence);
  // Logits and batch are the loss's alone: held here they would outlive their use.
  const auto take = [](at::Tensor& tensor) { return std::exchange(tensor, {}); };
  const at::Tensor loss = loss_sum(forward(take(batch.ids_BT), take(batch.positions_BT)),
                                   own_labels(take(batch.labels_BT)));
  over("forward");
  (loss / options.divisor).backward();
  data_parallel_->finish_backward();
  over("backward");
  return loss.detach();
}

at::Tensor ParallelModel::forward(const at::Tensor& ids_BT, const at::Tensor& positions_BT,
                                  const at::Tensor& hidden_BTD) {
  at::Tensor output = decoder_(ids_BT, positions_BT, hidden_BTD);
  // Of the model: what goes on to another stage stays in the computation's dtype.
  return output_dtype_ && stage_range().head ? output.to(*output_dtype_) : output;
}

at::Tensor ParallelModel::own_labels(const at::Tensor& labels_BT) const {
  return decoder_.sequence_part().of(labels_BT, kIgnoreIndex);
}

at::Tensor ParallelModel::whole_sequences(const at::Tensor& logits_BTv) const {
  return cp::whole_sequences(logits_BTv, decoder_.sequence_part(), mesh_.group("cp"));
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
