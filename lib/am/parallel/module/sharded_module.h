// Shards a user-defined torch::nn module under FSDP2, HSDP, DDP or Megatron-FSDP.
// Every rank must create the module with the same values.
//
//   const auto model = std::make_shared<Sharded<torch::nn::LinearImpl>>(512, 512);   // sharded.h
//   ShardedModule sharded(model, mesh, config::FSDP2Config{});
//   torch::optim::AdamW optimizer(model->parameters());
//   at::mse_loss(model->forward(x), y).backward();   // reduces gradients to means over the ranks
//   optimizer.step();
//   optimizer.zero_grad();
//
// The module's parameters() remain the same tensors. They contain full parameters while their unit
// is gathered, and this rank's shards otherwise. After a backward pass, .grad of each parameter is
// this rank's shard of the reduced gradient. Units are the modules of type Sharded<M>, and the
// elements of each torch::nn::Sequential that have parameters. A parameter belongs to the innermost
// unit around it; a parameter that occurs in several units belongs to the innermost unit that
// contains them all. Buffers are neither sharded nor synchronized.
#pragma once

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "am/config/strategy_config.h"
#include "am/nn/hooks.h"
#include "am/parallel/data_parallel.h"
#include "am/parallel/module/module_units.h"
#include "am/parallel/module/sharded.h"
#include "am/parallel/sharded_parameters.h"
#include "am/runtime/device_mesh.h"

namespace torch::nn {
class Module;
}

namespace am::parallel {

class ModuleDryRun;

class ShardedModule final : public ShardedParameters, private nn::UnitHooks {
 public:
  // Shards the module's parameters, and moves them to the mesh's device. Collective over the mesh.
  // The mesh must outlive this object, and this object must outlive the module's forward and
  // backward passes. Throws Error(kPlan) if the mesh does not fit the strategy or has pp, cp or ep
  // ranks, if the strategy or one of its keys is not supported for torch modules, or if the
  // tensor-parallel plan does not fit the module or the mesh. Throws Error(kUsage), which names the
  // module or the parameter, if the module has no parameters, or if a parameter is a scalar,
  // belongs to no unit, or differs in dtype from the first parameter.
  ShardedModule(std::shared_ptr<torch::nn::Module> module, const runtime::DeviceMesh& mesh,
                const config::DistributedConfig& strategy, const model::TpPlan& tp_shard_plan = {});
  ~ShardedModule() override;

  bool offloaded() const override { return data_parallel_->offloaded(); }
  DataParallel& data_parallel() { return *data_parallel_; }
  const std::shared_ptr<torch::nn::Module>& module() const { return module_; }
  const config::DistributedConfig& strategy() const { return strategy_; }

  // Ends a backward pass; autograd calls it at the end of every backward(). Reduces the gradients
  // that are not reduced yet, frees the full parameters, and sets .grad of the module's parameters.
  void finish_backward();
  // Discards all gradients, as zero_grad() of the module or of an optimizer does.
  void zero_grad();

 private:
  ShardedModule(std::shared_ptr<torch::nn::Module> module, const runtime::DeviceMesh& mesh,
                const config::Plan& plan, ModuleUnits found);
  void before_unit(size_t use, std::span<at::Tensor> inputs) override;
  void after_unit(size_t use, std::span<at::Tensor> outputs) override;
  void for_each_gradient(
      const std::function<void(const at::Tensor& leaf, const at::Tensor& gradient)>& visit);
  // Sets .grad of the module's parameters to aliases of their groups' reduced gradients.
  void show_gradients();
  // Called when a forward pass with gradients begins. Resets .grad of the module's parameters. If
  // the user has replaced a .grad, first copies it to the group's reduced gradients, to which the
  // next backward pass adds. A .grad that the user has reset counts as zero.
  void take_gradients();

  std::shared_ptr<torch::nn::Module> module_;
  config::DistributedConfig strategy_;
  std::vector<ModuleUnit*> units_;  // units, by the index of their nn::UnitUse
  std::vector<std::pair<ParallelLayer*, ParallelLayer::Style>> layers_;  // sharded over tp
  std::optional<at::ScalarType> output_dtype_;
  std::unique_ptr<DataParallel> data_parallel_;
  std::unique_ptr<ModuleDryRun> dry_run_;  // null unless the program is run by am-run --dry-run
  bool shown_ = false;                     // whether show_gradients() has set a .grad
  bool updated_ = true;  // whether parameters may have changed since the last pass
  // Whether the backward pass in progress calls finish_backward() at its end.
  bool will_finish_ = false;
};

}  // namespace am::parallel
