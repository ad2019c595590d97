// A model under a plan's layout, in one process of the mesh: what training and inspection both
// hold.
//
//   auto model = ParallelModel::build(plan, config, layout, mesh);
//   checkpoint::load_or_initialize(*model, plan);
//   at::Tensor loss_sum = model->forward_backward(batches, {.divisor = labels_in_global_batch});
//
// A loss of one's own is trained through the parts of a model that no pipeline cuts:
//
//   at::Tensor logits = model->forward(ids);
//   (model->loss_sum(logits, labels) / labels_in_global_batch).backward();
//   model->data_parallel().finish_backward();
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "am/config/plan.h"
#include "am/config/strategy_config.h"
#include "am/mesh/shard.h"
#include "am/model/config.h"
#include "am/parallel/data_parallel.h"
#include "am/parallel/micro_batches.h"
#include "am/parallel/pass_options.h"
#include "am/parallel/pp/pipeline.h"
#include "am/parallel/stage_model.h"
#include "am/planner/layout.h"
#include "am/runtime/device_mesh.h"

namespace am::parallel {

class ParallelModel {
 public:
  // Collective. `layout` is copied; `mesh` must outlive the model. Parameters start as zeros.
  // `strategy`: a registered one, or a plugin's (strategy.h); empty: the plan's own.
  static std::unique_ptr<ParallelModel> build(const config::Plan& plan,
                                              const model::ModelConfig& config,
                                              const planner::Layout& layout,
                                              const runtime::DeviceMesh& mesh,
                                              const std::string& strategy = {});

  // Forward and backward of all micro-batches; the sum of this rank's label cross-entropies: [1],
  // float64, on the model's device, the same on every tp rank, and zero on ranks of a pipeline that
  // do not have its end. Gradients join those that are there.
  at::Tensor forward_backward(MicroBatches& batches, const PassOptions& options);
  // The same sum without a graph. Leaves the units that are used last whole.
  at::Tensor forward_only(MicroBatches& batches);

  // Logits and what is made of them: see StageModel. Through the stages of a pipeline without a
  // graph alone, one after the other (collective); its ranks have all logits then, in float32.
  at::Tensor forward(const at::Tensor& ids_BT, const at::Tensor& positions_BT = {});
  at::Tensor whole_sequences(const at::Tensor& logits_BTv) const;
  at::Tensor loss_sum(const at::Tensor& logits_BTv, const at::Tensor& labels_BT) const;
  at::Tensor full_logits(const at::Tensor& logits_BTv) const;

  // Of a model that no pipeline cuts.
  const mesh::Extent& vocabulary_slice() const { return whole().vocabulary_slice(); }
  DataParallel& data_parallel() { return whole().data_parallel(); }
  const DataParallel& data_parallel() const { return whole().data_parallel(); }
  void begin_dropout(uint64_t seed, int64_t step, int64_t first_sequence) {
    whole().decoder().begin_dropout(seed, step, first_sequence);
  }
  void end_dropout() { whole().decoder().end_dropout(); }

  // This rank's stages, by their number in the pipeline.
  const std::map<int, std::unique_ptr<StageModel>>& stages() const { return stages_; }
  // What executes their schedule; null: one stage.
  Pipeline* pipeline() const { return pipeline_.get(); }
  // The groups of all of them.
  const std::vector<ParamGroup*>& groups() const { return groups_; }
  // Whether what is stored is in host memory while a GPU computes.
  bool offloaded() const { return stages_.begin()->second->data_parallel().offloaded(); }
  void zero_grad();
  // Frees the full parameters of all units.
  void reshard();

  // Of this rank's tokens since the last call: how many took each expert, layer after layer of
  // those of the whole model that have experts; zeros for other ranks' layers. Empty: there are no
  // experts.
  std::vector<int64_t> take_expert_counts();
  // Of this rank's layers: see nn::Decoder.
  void set_balance_factor(double factor);
  at::Tensor take_balance();

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
  StageModel& whole() const;

  ParallelModel(const config::Plan& plan, const model::ModelConfig& config,
                const planner::Layout& layout, const runtime::DeviceMesh& mesh);
  void add_stage(int number, std::unique_ptr<StageModel> stage);
  void add_pipeline(const config::Plan& plan);

  model::ModelConfig config_;
  config::DistributedConfig strategy_;  // the plan's
  planner::Layout layout_;
  const runtime::DeviceMesh& mesh_;
  std::map<int, std::unique_ptr<StageModel>> stages_;
  std::vector<ParamGroup*> groups_;
  std::unique_ptr<Pipeline> pipeline_;  // null: one stage
  int unshard_scopes_ = 0;              // UnshardScopes that are open
};

// What am-run and am-repl on a plan cannot carry out although the plan is valid: strategies and
// keys that this version does not run. Adds "runtime.unsupported" errors.
void check_supported(const config::Plan& plan, Diagnostics& found);

// strategy.backend; where it is absent nccl with a GPU that this build can use, else gloo.
std::string backend_of(const config::Plan& plan);

}  // namespace am::parallel
