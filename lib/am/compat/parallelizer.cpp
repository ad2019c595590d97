#include "am/compat/parallelizer.h"

#include <algorithm>
#include <array>
#include <utility>

#include "am/base/error.h"
#include "am/base/text.h"
#include "am/config/strategy_codec.h"
#include "am/rules/check.h"

namespace am::compat {
namespace {

// Returns a plan for the mesh and the strategy. For ddp, the plan leaves dp_replicate at 1, because
// ddp replicates over all of dp anyway.
config::Plan plan_of(const mesh::MeshSizes& sizes, const config::DistributedConfig& strategy,
                     const std::string& dtype) {
  config::Plan plan;
  plan.file = "this program";
  plan.strategy = strategy;
  plan.model.dtype = dtype;
  plan.mesh.world_size = sizes.world_size();
  plan.mesh.dp_size = sizes.dp();
  const bool replicas_are_dp = std::holds_alternative<config::DDPConfig>(strategy);
  plan.mesh.dp_replicate_size = replicas_are_dp ? 1 : sizes.dp_replicate;
  plan.mesh.tp_size = sizes.tp;
  plan.mesh.pp_size = sizes.pp;
  plan.mesh.cp_size = sizes.cp;
  plan.mesh.ep_size = sizes.ep;
  return plan;
}

// Whether a rule is about sequences or batches. Violations of these rules are ignored, because the
// plan contains only default sizes of sequences and batches. forward() uses the sizes of its
// arguments instead.
bool is_of_batches(std::string_view rule) {
  return starts_with(rule, "seq.") || starts_with(rule, "batch.");
}

void throw_errors(const Diagnostics& found) {
  std::vector<std::string> lines;
  std::string hint;
  for (const Diagnostic& item : found.items()) {
    if (item.severity != Severity::kError || is_of_batches(item.rule)) continue;
    lines.push_back(cat(item.rule, ": ", item.message));
    if (hint.empty()) hint = item.help;
  }
  if (!lines.empty()) throw Error(ErrorKind::kPlan, join(lines, "\n"), hint);
}

std::string sizes_text(const mesh::MeshSizes& sizes) {
  return cat("pp ", sizes.pp, ", dp_replicate ", sizes.dp_replicate, ", dp_shard ", sizes.dp_shard,
             ", cp ", sizes.cp, ", tp ", sizes.tp);
}

std::unique_ptr<parallel::ParallelModel> parallelize(const model::ModelConfig& model,
                                                     const runtime::DeviceMesh& mesh,
                                                     const config::DistributedConfig& strategy,
                                                     const std::string& dtype) {
  const mesh::MeshSizes& sizes = mesh.layout().sizes();
  // The caller passes full sequences, so cp must be 1. The model must have all layers, so pp must
  // be 1.
  if (sizes.pp > 1 || sizes.cp > 1) {
    throw Error(ErrorKind::kPlan,
                cat("runtime.unsupported: the functions *_strategy_parallelize support neither "
                    "pipeline nor context parallelism, but the mesh has pp ",
                    sizes.pp, " and cp ", sizes.cp),
                "use parallel::ParallelModel::build, with a plan that has [pipeline] or [context]");
  }
  const config::Plan plan = plan_of(sizes, strategy, dtype);
  Diagnostics found;
  const rules::CheckedPlan checked = rules::check_model(plan, model, found);
  parallel::check_supported(plan, found);
  throw_errors(found);
  AM_ASSERT(checked.layout.has_value(), "a plan without errors has a layout");
  if (checked.layout->mesh.sizes() != sizes) {
    throw Error(ErrorKind::kPlan,
                cat("the mesh is (", sizes_text(sizes), "), but ", config::strategy_name(strategy),
                    " needs (", sizes_text(checked.layout->mesh.sizes()), ")"),
                "create the runtime::DeviceMesh with the sizes that the strategy needs");
  }
  return parallel::ParallelModel::build(plan, model, *checked.layout, mesh);
}

}  // namespace

std::unique_ptr<parallel::ParallelModel> fsdp2_strategy_parallelize(
    const model::ModelConfig& model, const runtime::DeviceMesh& mesh,
    const config::FSDP2Config& strategy, const std::string& dtype) {
  return parallelize(model, mesh, strategy, dtype);
}

std::unique_ptr<parallel::ParallelModel> megatron_fsdp_strategy_parallelize(
    const model::ModelConfig& model, const runtime::DeviceMesh& mesh,
    const config::MegatronFSDPConfig& strategy, const std::string& dtype) {
  return parallelize(model, mesh, strategy, dtype);
}

std::unique_ptr<parallel::ParallelModel> ddp_strategy_parallelize(const model::ModelConfig& model,
                                                                  const runtime::DeviceMesh& mesh,
                                                                  const config::DDPConfig& strategy,
                                                                  const std::string& dtype) {
  return parallelize(model, mesh, strategy, dtype);
}

std::unique_ptr<parallel::ShardedModule> fsdp2_strategy_parallelize(
    std::shared_ptr<torch::nn::Module> model, const runtime::DeviceMesh& mesh,
    const config::FSDP2Config& strategy) {
  return std::make_unique<parallel::ShardedModule>(std::move(model), mesh, strategy);
}

std::unique_ptr<parallel::ShardedModule> megatron_fsdp_strategy_parallelize(
    std::shared_ptr<torch::nn::Module> model, const runtime::DeviceMesh& mesh,
    const config::MegatronFSDPConfig& strategy) {
  return std::make_unique<parallel::ShardedModule>(std::move(model), mesh, strategy);
}

std::unique_ptr<parallel::ShardedModule> ddp_strategy_parallelize(
    std::shared_ptr<torch::nn::Module> model, const runtime::DeviceMesh& mesh,
    const config::DDPConfig& strategy) {
  return std::make_unique<parallel::ShardedModule>(std::move(model), mesh, strategy);
}

std::unique_ptr<parallel::ShardedModule> apply_fsdp_sharding_recursively(
    std::shared_ptr<torch::nn::Module> module, const runtime::DeviceMesh& mesh,
    const config::MixedPrecisionPolicy& mp_policy,
    const std::optional<config::CPUOffloadPolicy>& offload_policy) {
  config::FSDP2Config strategy;
  strategy.mp_policy = mp_policy;
  strategy.offload_policy = offload_policy;
  return fsdp2_strategy_parallelize(std::move(module), mesh, strategy);
}

parallel::SyncContext get_sync_ctx(parallel::ShardedModule& model, bool is_optim_step,
                                   bool defer_fsdp_grad_sync) {
  return parallel::get_sync_ctx(model.data_parallel(), model.strategy(), is_optim_step,
                                defer_fsdp_grad_sync);
}

int64_t zero_level_of(std::string_view sharding_strategy) {
  constexpr std::array<std::pair<std::string_view, int64_t>, 2> kNvFsdpNames = {
      {{"grads_params", 3}, {"params", 3}}};
  const std::vector<std::string>& levels = config::zero_level_names();
  const auto level = std::find(levels.begin(), levels.end(), sharding_strategy);
  if (level != levels.end()) return level - levels.begin();
  std::vector<std::string> legal = levels;
  for (const auto& [name, nvfsdp_level] : kNvFsdpNames) {
    if (name == sharding_strategy) return nvfsdp_level;
    legal.emplace_back(name);
  }
  const auto near = nearest(sharding_strategy, legal);
  throw Error(ErrorKind::kUsage, cat("\"", sharding_strategy, "\" is not a sharding strategy"),
              cat(near ? cat("did you mean \"", *near, "\"? ") : std::string(),
                  "legal: ", join(legal, ", ")));
}

std::unique_ptr<parallel::ParallelModel> nvfsdp_strategy_parallelize(
    const model::ModelConfig& model, const runtime::DeviceMesh& mesh,
    std::string_view data_parallel_sharding_strategy, const config::MegatronFSDPConfig& strategy,
    const std::string& dtype) {
  config::MegatronFSDPConfig with_level = strategy;
  with_level.zero_dp_strategy = zero_level_of(data_parallel_sharding_strategy);
  return megatron_fsdp_strategy_parallelize(model, mesh, with_level, dtype);
}

}  // namespace am::compat
