// Functions that build a parallel model from its config and a mesh, with the names of NeMo
// AutoModel's parallelizer. am-run and am-repl start from a plan file instead, but also use
// ParallelModel::build and the strategies of parallel/strategy.h.
//
//   runtime::run_ranks(4, [&](const runtime::World& world) {
//     const runtime::DeviceMesh mesh(world, mesh::MeshLayout({.dp_shard = 2, .tp = 2}));
//     auto model = fsdp2_strategy_parallelize(config, mesh, {.sequence_parallel = true});
//     model->loss_sum(model->forward(ids), labels).backward();
//     model->data_parallel().finish_backward();
//   });
//
// AutoModel's functions modify a torch module in place, as the overloads for torch::nn::Module do
// (parallel/module/sharded_module.h). The other overloads build a model from its config. The
// model's parameters are sharded from the start and contain zeros; checkpoint::initialize() sets
// their initial values.
//
// AutoModel asserts some conditions and detects others late, for example heads that tp does not
// divide, or a TP plan that matches no module. The overloads for a config check the rules of
// `am-plan check` before they build the model.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "am/config/strategy_config.h"
#include "am/model/config.h"
#include "am/parallel/module/sharded_module.h"
#include "am/parallel/parallel_model.h"
#include "am/parallel/sync_ctx.h"
#include "am/runtime/device_mesh.h"

namespace am::compat {

// Functions with a mesh are collective over the mesh, which must outlive the model. `dtype` is the
// storage dtype of parameters. The functions that build a model from its config throw Error(kPlan)
// if rules are violated. The message lists the violated rules, one per line, for example
// "tp.heads: ..". Rules on sequences and batches are ignored. These functions also throw
// Error(kPlan) if the mesh does not fit the strategy (for example, ddp needs dp_replicate instead
// of dp_shard), or if the mesh has pp > 1 or cp > 1.

// Applies tensor parallelism by strategy.tp_plan, then activation checkpointing, then FSDP over
// dp_shard_cp; a mesh with dp_replicate > 1 means hybrid sharding. The default mixed-precision
// policy is FSDP2Config's: bfloat16 parameters, float32 reduction, outputs unchanged.
std::unique_ptr<parallel::ParallelModel> fsdp2_strategy_parallelize(
    const model::ModelConfig& model, const runtime::DeviceMesh& mesh,
    const config::FSDP2Config& strategy = {}, const std::string& dtype = "float32");

// Shards the model according to strategy.zero_dp_strategy. If the data-parallel group has one rank,
// AutoModel warns and returns a model without the strategy and its gradient checks; this function
// applies the strategy.
std::unique_ptr<parallel::ParallelModel> megatron_fsdp_strategy_parallelize(
    const model::ModelConfig& model, const runtime::DeviceMesh& mesh,
    const config::MegatronFSDPConfig& strategy = {}, const std::string& dtype = "float32");

// Replicates all parameters on every rank, and sums gradients over dp_replicate.
std::unique_ptr<parallel::ParallelModel> ddp_strategy_parallelize(
    const model::ModelConfig& model, const runtime::DeviceMesh& mesh,
    const config::DDPConfig& strategy = {}, const std::string& dtype = "float32");

// Overloads for a user's torch::nn module, which is sharded in place. They throw the errors of
// parallel::ShardedModule's constructor, for example if a parameter belongs to no unit.
std::unique_ptr<parallel::ShardedModule> fsdp2_strategy_parallelize(
    std::shared_ptr<torch::nn::Module> model, const runtime::DeviceMesh& mesh,
    const config::FSDP2Config& strategy = {});
std::unique_ptr<parallel::ShardedModule> megatron_fsdp_strategy_parallelize(
    std::shared_ptr<torch::nn::Module> model, const runtime::DeviceMesh& mesh,
    const config::MegatronFSDPConfig& strategy = {});
std::unique_ptr<parallel::ShardedModule> ddp_strategy_parallelize(
    std::shared_ptr<torch::nn::Module> model, const runtime::DeviceMesh& mesh,
    const config::DDPConfig& strategy = {});
// Shards the module under FSDP2 with these policies, and with defaults for all other settings.
// Units are the modules of type Sharded<M> and the elements of Sequentials. AutoModel's units are
// the elements of every ModuleList.
std::unique_ptr<parallel::ShardedModule> apply_fsdp_sharding_recursively(
    std::shared_ptr<torch::nn::Module> module, const runtime::DeviceMesh& mesh,
    const config::MixedPrecisionPolicy& mp_policy = {},
    const std::optional<config::CPUOffloadPolicy>& offload_policy = {});
// Returns a scope that decides whether the backward pass inside it reduces gradients over the
// ranks, as parallel::get_sync_ctx() does.
parallel::SyncContext get_sync_ctx(parallel::ShardedModule& model, bool is_optim_step,
                                   bool defer_fsdp_grad_sync = true);

// Returns whether nvFSDP (Megatron-FSDP's former name) can be used. For AutoModel, nvFSDP is an
// optional package; automesh contains Megatron-FSDP.
constexpr bool have_nvfsdp() { return true; }

// Returns the zero_dp_strategy for the name of a sharding strategy:
//
//   no_shard 0, optim 1, optim_grads 2, optim_grads_params 3
//   params, grads_params 3: AutoModel's names for nvFSDP. Sharded parameters imply level 3: a rank
//   updates only its own shard of a parameter, so it needs only this shard's gradients and states.
//
// Throws Error(kUsage), which lists the names, for any other name.
int64_t zero_level_of(std::string_view sharding_strategy);

// Does what megatron_fsdp_strategy_parallelize does, with the sharding strategy given by name
// instead of by strategy.zero_dp_strategy. AutoModel's nvfsdp_unit_modules are
// strategy.megatron_fsdp_unit_modules. Unlike in AutoModel, no optimizer is passed, because
// optimizers are created from the model's ParamGroups afterwards.
std::unique_ptr<parallel::ParallelModel> nvfsdp_strategy_parallelize(
    const model::ModelConfig& model, const runtime::DeviceMesh& mesh,
    std::string_view data_parallel_sharding_strategy = "optim_grads_params",
    const config::MegatronFSDPConfig& strategy = {}, const std::string& dtype = "float32");

}  // namespace am::compat
