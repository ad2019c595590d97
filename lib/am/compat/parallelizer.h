// Entry points for programs that have a model's config and a mesh, with the names of NeMo
// AutoModel's parallelizer. am-run and am-repl start from a plan file instead; both use
// ParallelModel::build and the strategies of strategy.h.
//
//   runtime::run_ranks(4, [&](const runtime::World& world) {
//     const runtime::DeviceMesh mesh(world, mesh::MeshLayout({.dp_shard = 2, .tp = 2}));
//     auto model = fsdp2_strategy_parallelize(config, mesh, {.sequence_parallel = true});
//     model->loss_sum(model->forward(ids), labels).backward();
//     model->data_parallel().finish_backward();
//   });
//
// AutoModel's functions modify a torch module in place. Here a model is built from its config,
// sharded from the start, with zeros as values; checkpoint::initialize initialises them. Conditions
// that AutoModel asserts, or detects late (heads that tp does not divide, a hybrid mesh, a plan
// that matches no module), are all checked by the rules of `am-plan check` before anything is
// built.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "am/config/strategy_config.h"
#include "am/model/config.h"
#include "am/parallel/parallel_model.h"
#include "am/runtime/device_mesh.h"

namespace am::compat {

// All functions are collective over the mesh, which must outlive the model. `dtype` is the storage
// dtype of parameters. They throw Error(kPlan) with all violated rules, one per line ("tp.heads:
// ..."), or if the mesh does not fit the strategy (ddp replicates: dp_replicate, not dp_shard).

// Applies tensor parallelism by strategy.tp_plan, then activation checkpointing, then FSDP over
// dp_shard_cp, replicated over dp_replicate. The default mixed-precision policy is FSDP2Config's:
// bfloat16 parameters, float32 reduction, outputs unchanged. Hybrid sharding needs only a
// corresponding mesh.
std::unique_ptr<parallel::ParallelModel> fsdp2_strategy_parallelize(
    const model::ModelConfig& model, const runtime::DeviceMesh& mesh,
    const config::FSDP2Config& strategy = {}, const std::string& dtype = "float32");

// Shards the model according to zero_dp_strategy. For a data-parallel group of one rank AutoModel
// warns and returns a model without the strategy and its gradient checks; here the strategy is
// applied.
std::unique_ptr<parallel::ParallelModel> megatron_fsdp_strategy_parallelize(
    const model::ModelConfig& model, const runtime::DeviceMesh& mesh,
    const config::MegatronFSDPConfig& strategy = {}, const std::string& dtype = "float32");

// Keeps whole parameters on every rank, and sums gradients over dp_replicate.
std::unique_ptr<parallel::ParallelModel> ddp_strategy_parallelize(
    const model::ModelConfig& model, const runtime::DeviceMesh& mesh,
    const config::DDPConfig& strategy = {}, const std::string& dtype = "float32");

// nvFSDP is Megatron-FSDP's former name. In AutoModel it is an optional package; here Megatron-FSDP
// is built in.
constexpr bool have_nvfsdp() { return true; }

// Returns the zero_dp_strategy for the name of a sharding strategy:
//
//   no_shard 0, optim 1, optim_grads 2, optim_grads_params 3
//   params, grads_params 3: AutoModel's names for nvFSDP. A rank updates only the part of a
//   parameter that it stores, so gradients and optimizer states are sharded like the parameters.
//
// Throws Error(kUsage) listing the names.
int64_t zero_level_of(std::string_view sharding_strategy);

// megatron_fsdp_strategy_parallelize with the level given by name. Ignores
// strategy.zero_dp_strategy; strategy.megatron_fsdp_unit_modules are nvfsdp_unit_modules. Unlike in
// AutoModel no optimizer is passed: optimizers are created from the model's groups afterwards.
std::unique_ptr<parallel::ParallelModel> nvfsdp_strategy_parallelize(
    const model::ModelConfig& model, const runtime::DeviceMesh& mesh,
    std::string_view data_parallel_sharding_strategy = "optim_grads_params",
    const config::MegatronFSDPConfig& strategy = {}, const std::string& dtype = "float32");

}  // namespace am::compat
