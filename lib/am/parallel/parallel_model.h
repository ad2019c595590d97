// A model under a plan's layout, in one process of the mesh: what training and inspection both
// hold.
//
//   auto model = ParallelModel::build(plan, config, layout, mesh);
//   checkpoint::load_or_initialize(*model, plan);
//   at::Tensor loss_sum = model->forward_backward(batches, {.divisor = labels_in_global_batch});
//
// Who looks at logits takes the parts of it:
//
//   at::Tensor logits = model->forward(ids);
//   (model->loss_sum(logits, labels) / labels_in_global_batch).backward();
//   model->data_parallel().finish_backward();
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "am/config/plan.h"
#include "am/config/strategy_config.h"
#include "am/mesh/shard.h"
#include "am/model/config.h"
#include "am/nn/decoder.h"
#include "am/parallel/data_parallel.h"
#include "am/parallel/micro_batches.h"
#include "am/planner/layout.h"
#include "am/runtime/device_mesh.h"

namespace am::parallel {

// Labels with this value are not counted, as in PyTorch.
inline constexpr int64_t kIgnoreIndex = -100;

// Of a forward and backward pass.
struct PassOptions {
  // What the sum of the cross-entropies is divided by before its backward: the labels of the global
  // batch, over the loss scale.
  double divisor = 1.0;
  // The step's last pass: with the last micro-batch's backward the gradients are reduced over the
  // ranks. False: as get_sync_ctx says (sync_ctx.h), they wait for a later pass.
  bool reduce = true;
  // What adapters drop is drawn by these (nn::Decoder::begin_dropout).
  uint64_t seed = 0;
  int64_t step = 0;
  // Told when "forward" and "backward" of the last micro-batch are over.
  std::function<void(const char* phase)> phase_over = {};
};

class ParallelModel {
 public:
  // Collective. `layout` is copied; `mesh` must outlive the model. Parameters start as zeros.
  // `strategy`: a registered one, or a plugin's (strategy.h); empty: the plan's own.
  static std::unique_ptr<ParallelModel> build(const config::Plan& plan,
                                              const model::ModelConfig& config,
                                              const planner::Layout& layout,
                                              const runtime::DeviceMesh& mesh,
                                              const std::string& strategy = {});

  // A pipeline stage's part of it: its layers, and embedding and head where it has them. The
  // model's layout is the stage's (planner/stage_layout.h); its passes are pp/stage.h's. Collective
  // among the ranks of the stage.
  static std::unique_ptr<ParallelModel> build_stage(const config::Plan& plan,
                                                    const model::ModelConfig& config,
                                                    const planner::Layout& layout, int stage,
                                                    const runtime::DeviceMesh& mesh);

  // Forward and backward of all micro-batches; the sum of this rank's label cross-entropies: [1],
  // float64, on the model's device, the same on every tp rank. Gradients join those that are there.
  at::Tensor forward_backward(MicroBatches& batches, const PassOptions& options);
  // The same sum without a graph. Leaves the units that are used last whole.
  at::Tensor forward_only(MicroBatches& batches);

  // ids_BT (int64, the same on every tp rank) -> logits_BTv; v is this rank's slice of the
  // vocabulary when vocabulary_slice() says so. positions_BT, and a stage's hidden_BTD: see
  // nn::Decoder.
  at::Tensor forward(const at::Tensor& ids_BT, const at::Tensor& positions_BT = {},
                     const at::Tensor& hidden_BTD = {});
  // Under context parallelism logits are those of this rank's part of each sequence: its labels, of
  // labels_BT of whole sequences; and the whole sequences' logits (or what else has them), on every
  // cp rank, without gradient.
  at::Tensor own_labels(const at::Tensor& labels_BT) const;
  at::Tensor whole_sequences(const at::Tensor& logits_BTv) const;
  // Sum of cross-entropies over this rank's counted labels, float32; the same on every tp rank.
  at::Tensor loss_sum(const at::Tensor& logits_BTv, const at::Tensor& labels_BT) const;
  // Logits of the whole vocabulary, on every tp rank; no gradient.
  at::Tensor full_logits(const at::Tensor& logits_BTv) const;
  // Of this rank's tokens: see nn::Decoder.
  std::vector<int64_t> take_expert_counts() { return decoder_.take_expert_counts(); }
  void set_balance_factor(double factor) { decoder_.set_balance_factor(factor); }
  at::Tensor take_balance() { return decoder_.take_balance(); }
  void begin_dropout(uint64_t seed, int64_t step, int64_t first_sequence) {
    decoder_.begin_dropout(seed, step, first_sequence);
  }
  void end_dropout() { decoder_.end_dropout(); }
  // What it computes: all, or a stage's part.
  const planner::StageRange& stage_range() const { return decoder_.range(); }
  const mesh::Extent& vocabulary_slice() const { return vocabulary_slice_; }

  DataParallel& data_parallel() { return *data_parallel_; }
  const DataParallel& data_parallel() const { return *data_parallel_; }
  const planner::Layout& layout() const { return layout_; }
  const runtime::DeviceMesh& mesh() const { return mesh_; }
  const model::ModelConfig& config() const { return config_; }

  // Everything this rank stores, unit after unit.
  void for_each_owned(const std::function<void(ParamGroup&, size_t, const OwnedParameter&)>& visit);
  // A parameter gathered from all ranks that hold a part of it; collective, on every rank. Values
  // in the storage dtype.
  at::Tensor full_parameter(const std::string& name) const;
  // Its gradient, of one that trains, after a backward pass.
  at::Tensor full_gradient(const std::string& name) const;

 private:
  // Of whole parameters: what `flat_of` gives for the group that has this one, gathered.
  at::Tensor gather_from(const std::string& name,
                         const std::function<at::Tensor(const ParamGroup&)>& flat_of) const;
  friend class UnshardScope;

  at::Tensor no_loss() const;
  at::Tensor run(MicroBatch batch, const PassOptions& options, bool last);

  ParallelModel(const model::ModelConfig& config, const planner::Layout& layout,
                const planner::StageRange& range, const runtime::DeviceMesh& mesh);
  // By the strategy of this name.
  void parallelize(const config::Plan& plan, const std::string& strategy);

  model::ModelConfig config_;
  config::DistributedConfig strategy_;  // the plan's
  planner::Layout layout_;
  const runtime::DeviceMesh& mesh_;
  nn::Decoder decoder_;
  std::unique_ptr<DataParallel> data_parallel_;
  mesh::Extent vocabulary_slice_;
  std::optional<at::ScalarType> output_dtype_;
  int unshard_scopes_ = 0;  // UnshardScopes that are open
};

// What am-run and am-repl on a plan cannot carry out although the plan is valid: strategies and
// keys that this version does not run. Adds "runtime.unsupported" errors.
void check_supported(const config::Plan& plan, const mesh::MeshSizes& sizes, Diagnostics& found);

// strategy.backend; where it is absent nccl with a GPU that this build can use, else gloo.
std::string backend_of(const config::Plan& plan);

}  // namespace am::parallel
