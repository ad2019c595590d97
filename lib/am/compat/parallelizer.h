// Entry points for programs that have a model's config and a mesh, by the names of NeMo AutoModel's
// parallelizer. am-run and am-repl start from a plan file instead; both ways meet in
// ParallelModel::build and the strategies of strategy.h.
//
//   run_ranks(4, [&](const runtime::World& world) {
//     const runtime::DeviceMesh mesh(world, mesh::MeshLayout({.dp_shard = 2, .tp = 2}));
//     auto model = fsdp2_strategy_parallelize(config, mesh, {.sequence_parallel = true});
//     model->loss_sum(model->forward(ids), labels).backward();
//     model->data_parallel().finish_backward();
//   });
//
// AutoModel's take a torch module and change it in place. Here a model is made of its config, cut
// from the start, with zeros for values: checkpoint::initialize gives it some. What
// AutoModel asserts, or finds out half-way (heads that tp does not divide, a hybrid mesh, a plan
// that fits no module), is checked by the rules of `am-plan check` before anything is made, all of
// it at once.
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

// All of them are collective over the mesh, which must outlive the model. `dtype` is what
// parameters are stored in. They throw Error(kPlan) with every rule that is violated, a line each
// ("tp.heads: ..."), or when the mesh is not the strategy's (ddp replicates: dp_replicate, not
// dp_shard).

// Tensor parallelism by strategy.tp_plan, then checkpointing, then FSDP over dp_shard_cp,
// replicated over dp_replicate. A mixed-precision policy that is left out is FSDP2Config's:
// bfloat16 parameters, float32 reduction, outputs as they come. Hybrid sharding is a mesh like
// others.
std::unique_ptr<parallel::ParallelModel> fsdp2_strategy_parallelize(
    const model::ModelConfig& model, const runtime::DeviceMesh& mesh,
    const config::FSDP2Config& strategy = {}, const std::string& dtype = "float32");

// Sharded as zero_dp_strategy says. Where the data-parallel group has one rank AutoModel warns and
// returns a model without the strategy, and with it without its gradient checks; here it runs.
std::unique_ptr<parallel::ParallelModel> megatron_fsdp_strategy_parallelize(
    const model::ModelConfig& model, const runtime::DeviceMesh& mesh,
    const config::MegatronFSDPConfig& strategy = {}, const std::string& dtype = "float32");

// Whole parameters on every rank; gradients summed over dp_replicate.
std::unique_ptr<parallel::ParallelModel> ddp_strategy_parallelize(
    const model::ModelConfig& model, const runtime::DeviceMesh& mesh,
    const config::DDPConfig& strategy = {}, const std::string& dtype = "float32");

// nvFSDP is what Megatron-FSDP was called at first. There it is a package that may be missing; here
// Megatron-FSDP is built in.
constexpr bool have_nvfsdp() { return true; }

// The zero_dp_strategy of a sharding strategy's name:
//
//   no_shard 0, optim 1, optim_grads 2, optim_grads_params 3
//   params, grads_params 3: AutoModel's names for nvFSDP. A rank updates the part of a parameter
//   that it stores and no other, so gradients and optimizer states are cut with the parameters.
//
// Throws Error(kUsage) that lists the names.
int64_t zero_level_of(std::string_view sharding_strategy);

// megatron_fsdp_strategy_parallelize with the level by its name. strategy.zero_dp_strategy is not
// looked at; strategy.megatron_fsdp_unit_modules are nvfsdp_unit_modules. Optimizers are made of
// the model's groups afterwards, so that none is passed through as AutoModel's is.
std::unique_ptr<parallel::ParallelModel> nvfsdp_strategy_parallelize(
    const model::ModelConfig& model, const runtime::DeviceMesh& mesh,
    std::string_view data_parallel_sharding_strategy = "optim_grads_params",
    const config::MegatronFSDPConfig& strategy = {}, const std::string& dtype = "float32");

}  // namespace am::compat
