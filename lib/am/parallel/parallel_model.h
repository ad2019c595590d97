// One rank's part of a model that is sharded by a plan's layout, for training and for inspection.
//
//   auto model = ParallelModel::build(plan, config, layout, mesh);
//   checkpoint::load_or_initialize(*model, plan);
//   at::Tensor loss_sum = model->forward_backward(batches, {.divisor = labels_in_global_batch});
//
// For a custom loss, call the parts of forward_backward() one by one (without pipeline
// parallelism):
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
#include "am/layout/layout.h"
#include "am/mesh/shard.h"
#include "am/model/config.h"
#include "am/parallel/data_parallel.h"
#include "am/parallel/micro_batches.h"
#include "am/parallel/pp/pipeline.h"
#include "am/parallel/sharded_parameters.h"
#include "am/parallel/stage_model.h"
#include "am/runtime/device_mesh.h"

namespace am::parallel {

class ParallelModel final : public ShardedParameters {
 public:
  // Builds this rank's part of the model; collective. `layout` is copied; `mesh` must outlive the
  // model. Parameters start as zeros. `strategy`: name of a registered strategy or of a plugin
  // (strategy.h); empty: the strategy of the plan.
  static std::unique_ptr<ParallelModel> build(const config::Plan& plan,
                                              const model::ModelConfig& config,
                                              const layout::Layout& layout,
                                              const runtime::DeviceMesh& mesh,
                                              const std::string& strategy = {});

  // Runs forward and backward of all micro-batches and accumulates gradients. Returns the sum of
  // the cross-entropies of this rank's labels: [1], float64, on the model's device, equal on all tp
  // ranks, and zero on ranks without the pipeline's last stage. An error of the device, for example
  // out of memory, names the FSDP unit that was running.
  at::Tensor forward_backward(MicroBatches& batches, const PassOptions& options);
  // Runs forward of all micro-batches without autograd. Returns the same sum as forward_backward().
  // Units that are not freed after forward stay gathered after the call.
  at::Tensor forward_only(MicroBatches& batches);

  // forward() returns logits, which are an argument of whole_sequences(), loss_sum() and
  // full_logits(). StageModel documents these functions for one stage. With a pipeline, forward()
  // must be called with grad mode off. It then runs the stages one after the other (collective),
  // and returns the full logits on all pipeline ranks, in float32.
  at::Tensor forward(const at::Tensor& ids_BT, const at::Tensor& positions_BT = {});
  at::Tensor whole_sequences(const at::Tensor& logits_BTv) const;
  at::Tensor loss_sum(const at::Tensor& logits_BTv, const at::Tensor& labels_BT) const;
  at::Tensor full_logits(const at::Tensor& logits_BTv) const;

  // The functions from vocabulary_slice() to end_dropout() require a model without pipeline
  // parallelism.
  const mesh::Extent& vocabulary_slice() const { return whole().vocabulary_slice(); }
  DataParallel& data_parallel() { return whole().data_parallel(); }
  const DataParallel& data_parallel() const { return whole().data_parallel(); }
  void begin_dropout(uint64_t seed, int64_t step, int64_t first_sequence) {
    whole().decoder().begin_dropout(seed, step, first_sequence);
  }
  void end_dropout() { whole().decoder().end_dropout(); }

  // Returns this rank's stages, by their number in the pipeline.
  const std::map<int, std::unique_ptr<StageModel>>& stages() const { return stages_; }
  // Returns the object that executes the pipeline schedule; never null. Without pipeline
  // parallelism, the schedule has a single stage.
  Pipeline* pipeline() const { return pipeline_.get(); }
  bool has_pipeline() const { return layout().stage_owners.size() > 1; }
  bool offloaded() const override { return stages_.begin()->second->data_parallel().offloaded(); }
  void zero_grad();
  // Frees the full parameters of all units.
  void reshard();

  // Returns the number of this rank's tokens that were routed to each expert since the last call,
  // for every MoE layer of the whole model, layer after layer; zeros for layers of pipeline stages
  // that other ranks hold. Empty for a model without experts.
  std::vector<int64_t> take_expert_counts();
  // set_balance_factor() sets the factor of the load-balancing loss in the MoE layers of this
  // rank's stages. take_balance() returns the sum of the load-balancing losses since its last call;
  // undefined if there were none.
  void set_balance_factor(double factor);
  at::Tensor take_balance();

  const model::ModelConfig& config() const { return config_; }
  std::string config_text() const override { return config_.text; }

 private:
  // Returns the unit whose work was last enqueued on the device, for example "the forward of
  // model.layers.3"; empty outside of forward and backward.
  std::string place() const;
  // Returns the only stage of a model without pipeline parallelism.
  StageModel& whole() const;

  ParallelModel(const config::Plan& plan, const model::ModelConfig& config,
                const layout::Layout& layout, const runtime::DeviceMesh& mesh);
  void add_stage(int number, std::unique_ptr<StageModel> stage);
  void add_pipeline(const config::Plan& plan);

  model::ModelConfig config_;
  config::DistributedConfig strategy_;  // strategy of the plan
  std::map<int, std::unique_ptr<StageModel>> stages_;
  std::unique_ptr<Pipeline> pipeline_;
};

// Adds a "runtime.unsupported" error for each strategy or key of a valid plan that am-run and
// am-repl cannot run in this version.
void check_supported(const config::Plan& plan, Diagnostics& found);

// Returns the plan's strategy.backend. If the key is absent, returns "nccl" if this build can use a
// GPU of this machine, otherwise "gloo".
std::string backend_of(const config::Plan& plan);

}  // namespace am::parallel
