// Rules on combinations of strategies with other features.
#include <array>
#include <variant>

#include "am/base/legal_values.h"
#include "am/base/number.h"
#include "am/base/text.h"
#include "am/cluster/hardware.h"
#include "am/config/backend.h"
#include "am/layout/backend_choice.h"
#include "am/layout/precision.h"
#include "am/rules/catalogue.h"

namespace am::rules {
namespace {

bool is_ddp(const RuleContext& context) {
  return std::holds_alternative<config::DDPConfig>(context.plan.strategy);
}

const config::FSDP2Config* fsdp2(const RuleContext& context) {
  return std::get_if<config::FSDP2Config>(&context.plan.strategy);
}

bool is_megatron(const RuleContext& context) {
  return std::holds_alternative<config::MegatronConfig>(context.plan.strategy);
}

void refuse(const RuleContext& context, const char* rule, const char* key, int64_t size,
            const char* what, Diagnostics& found) {
  if (size == 1) return;
  found.error(rule, context.plan.span(cat("mesh.", key)),
              cat(config::strategy_name(context.plan.strategy), " does not support ", what,
                  ", but ", key, " = ", size),
              cat(key, " = 1, or strategy name = \"fsdp2\""));
}

void check_tp(const RuleContext& context, Diagnostics& found) {
  if (!is_ddp(context)) return;
  refuse(context, "tp.strategy", "tp_size", context.plan.mesh.tp_size, "tensor parallelism", found);
}

void check_pp(const RuleContext& context, Diagnostics& found) {
  if (fsdp2(context) != nullptr || is_megatron(context)) return;
  refuse(context, "pp.strategy", "pp_size", context.plan.mesh.pp_size, "pipeline parallelism",
         found);
}

void check_cp(const RuleContext& context, Diagnostics& found) {
  if (!is_ddp(context)) return;
  refuse(context, "cp.strategy", "cp_size", context.plan.mesh.cp_size, "context parallelism",
         found);
}

void check_ep(const RuleContext& context, Diagnostics& found) {
  const int64_t ep = context.plan.mesh.ep_size;
  if (ep == 1) return;
  if (context.model != nullptr && context.model->moe.has_value()) {
    const int64_t experts = context.model->moe->experts;
    if (experts % ep == 0) return;
    found.error("ep.experts", context.plan.span("mesh.ep_size"),
                cat("ep_size = ", ep, " does not divide the ", experts, " experts"),
                assignment("ep_size", nearest_values(divisors(experts), ep)));
  } else if (context.model != nullptr) {
    found.error(
        "ep.experts", context.plan.span("mesh.ep_size"),
        cat("ep_size = ", ep, ", but a ", context.model->model_type, " model has no experts"),
        "ep_size = 1");
  }
}

void check_hsdp(const RuleContext& context, Diagnostics& found) {
  if (fsdp2(context) != nullptr || is_megatron(context)) return;
  refuse(context, "hsdp.strategy", "dp_replicate_size", context.plan.mesh.dp_replicate_size,
         "hybrid sharding", found);
}

void check_async_tp(const RuleContext& context, Diagnostics& found) {
  const auto* config = fsdp2(context);
  if (config == nullptr || !config->enable_async_tensor_parallel) return;
  if (context.plan.mesh.tp_size == 1 || config->sequence_parallel) return;
  found.error("strategy.async_tp", context.plan.span("strategy.enable_async_tensor_parallel"),
              "enable_async_tensor_parallel = true needs sequence_parallel = true",
              "sequence_parallel = true, or enable_async_tensor_parallel = false");
}

void check_reshard(const RuleContext& context, Diagnostics& found) {
  const auto* config = fsdp2(context);
  if (config == nullptr || context.mesh == nullptr || !config->reshard_after_forward) return;
  const auto* size = std::get_if<int64_t>(&*config->reshard_after_forward);
  if (size == nullptr) return;
  const int64_t shards = context.mesh->dp_shard * context.mesh->cp;
  if (*size >= 1 && shards % *size == 0) return;
  std::vector<int64_t> legal = divisors(shards);
  legal.erase(legal.begin());  // a size of 1 is left out, because a plan writes `false` instead
  const std::string sizes = assignment("reshard_after_forward", nearest_values(legal, *size));
  found.error(
      "strategy.reshard", context.plan.span("strategy.reshard_after_forward"),
      cat("reshard_after_forward = ", *size, " does not divide the ", shards,
          " ranks that parameters are sharded over"),
      sizes.empty() ? "reshard_after_forward = true or false" : cat(sizes, ", true or false"));
}

// Adds a warning if a GPU would compute in float32, which is much slower than bfloat16 (about 15
// times at the peak rates in plans/clusters/h100-sxm.toml). fsdp2 and megatron are not checked,
// because they have keys that select bfloat16 by default.
void check_float32(const RuleContext& context, Diagnostics& found) {
  const config::Plan& plan = context.plan;
  const auto backend = layout::asked_backend(plan);
  const bool on_gpu = !plan.cluster.gpu.empty() || (backend && !config::computes_on_host(backend));
  if (!on_gpu || fsdp2(context) != nullptr || is_megatron(context)) return;
  if (layout::resolve_precision(plan).products != "float32") return;
  const std::string name = config::strategy_name(plan.strategy);
  found.warning("strategy.float32", plan.span("strategy.name"),
                cat(name, " has no mp_policy: it computes in model.dtype = \"float32\""),
                cat("set model.dtype = \"bfloat16\" to compute and store in bfloat16; or ",
                    is_ddp(context) ? "set autocast_dtype = \"bfloat16\", or " : "",
                    "use fsdp2, to compute in bfloat16 and store float32"));
}

// Returns the sizes of a matrix on one rank: the input size and the output size. A fused matrix has
// the output size of each slice instead of the whole output size.
std::vector<int64_t> local_sizes(const model::ModuleSpec& module, int64_t tp) {
  const auto local = [&](model::Space space, int64_t size, int64_t grain) {
    const bool cut = space == model::Space::kHeads || space == model::Space::kKeyHeads ||
                     space == model::Space::kWide;
    if (!cut) return size;
    // If several ranks share a key head, each of them holds the complete head.
    return space == model::Space::kKeyHeads && size / tp < grain ? grain : ceil_div(size, tp);
  };
  std::vector<int64_t> sizes = {local(module.from, module.in, 1)};
  for (const model::Slice& slice : module.slices) {
    sizes.push_back(local(module.to, slice.length, module.grain));
  }
  if (module.slices.empty()) sizes.push_back(local(module.to, module.out, module.grain));
  return sizes;
}

// Reports an error if the GPU has no units for the recipe.
void check_fp8_units(const cluster::Gpu& gpu, const config::Fp8RecipeSpec& recipe, const Span& span,
                     Diagnostics& found) {
  using config::Fp8Recipe;
  const cluster::GpuGeneration generation = gpu.generation();
  if (gpu.fp8_flops == 0.0) {
    found.error("strategy.fp8", span, cat(gpu.name, " has no units for FP8"), "fp8 = \"none\"");
  } else if (recipe.recipe == Fp8Recipe::kNvfp4 && gpu.fp4_flops == 0.0) {
    found.error("strategy.fp8", span, cat(gpu.name, " has no units for FP4"), "fp8 = \"delayed\"");
  } else if (recipe.recipe == Fp8Recipe::kMxfp8 &&
             generation != cluster::GpuGeneration::kBlackwell) {
    found.error("strategy.fp8", span,
                cat(gpu.name, " cannot multiply in MXFP8, which begins with Blackwell"),
                "fp8 = \"block\", or \"delayed\"");
  }
}

// Reports an error if a matrix that the recipe applies to has a size on a rank that is not a
// multiple of Fp8RecipeSpec::multiple.
void check_fp8_sizes(const RuleContext& context, const config::Fp8RecipeSpec& recipe,
                     const Span& span, Diagnostics& found) {
  const config::Plan& plan = context.plan;
  const int64_t tp = plan.mesh.tp_size;
  const auto* megatron = std::get_if<config::MegatronConfig>(&plan.strategy);
  const bool every_matrix = config::uses_transformer_engine(plan.strategy);
  const auto applies = [&](const model::ModuleSpec& module) {
    if (module.role == model::Role::kOther) return false;
    if (!every_matrix) return model::multiplies_in_fp8(module);
    return module.kind == model::ModuleKind::kLinear || module.kind == model::ModuleKind::kExpert;
  };
  for (const model::LayerSpec& layer : model::describe(*context.model).kinds) {
    for (const model::ModuleSpec& module : layer.modules) {
      if (!applies(module)) continue;
      const bool expert = module.kind == model::ModuleKind::kExpert;
      const int64_t parts = !expert ? tp : megatron != nullptr ? megatron->expert_tp(tp) : 1;
      for (const int64_t size : local_sizes(module, parts)) {
        if (size % recipe.multiple == 0) continue;
        found.error("strategy.fp8", span,
                    cat("with tp_size = ", tp, ", ", module.name, " [", module.out, ", ", module.in,
                        "] has a size of ", size, " on each rank, which is not a multiple of ",
                        recipe.multiple),
                    every_matrix ? "fp8 = \"none\", or another tp_size"
                                 : "fp8 = \"none\", another tp_size, or backend = \"gloo\" to "
                                   "compute on the host");
        return;
      }
    }
  }
}

// Reports an error if GPUs cannot compute the plan's products in FP8 or FP4.
void check_fp8(const RuleContext& context, Diagnostics& found) {
  const config::Plan& plan = context.plan;
  const config::Fp8RecipeSpec& recipe = config::spec_of(config::fp8_of(plan.strategy));
  if (recipe.recipe == config::Fp8Recipe::kNone) return;
  const Span span = plan.span("strategy.fp8");
  if (is_megatron(context) && recipe.megatron.empty()) {
    found.error("strategy.fp8", span, cat("Megatron does not support fp8 = \"", recipe.name, "\""),
                "fp8 = \"tensorwise\", \"delayed\", \"block\", \"mxfp8\" or \"nvfp4\"");
    return;
  }
  const auto backend = layout::asked_backend(plan);
  if (backend && config::computes_on_host(backend)) return;
  Diagnostics ignored;
  const auto gpu = cluster::find_gpu(plan.cluster.gpu, plan.resolve("."), {}, ignored);
  if (gpu) check_fp8_units(*gpu, recipe, span, found);
  const bool on_gpu = !plan.cluster.gpu.empty() || backend.has_value();
  if (on_gpu && recipe.recipe == config::Fp8Recipe::kRowwise &&
      layout::resolve_precision(plan).products == "float32") {
    found.error(
        "strategy.fp8", span,
        "fp8 = \"rowwise\" cannot compute in float32: GPUs return its products in bfloat16 only",
        "fp8 = \"tensorwise\", or compute in bfloat16");
  }
  if (context.model != nullptr) check_fp8_sizes(context, recipe, span, found);
}

void check_autocast(const RuleContext& context, Diagnostics& found) {
  if (layout::autocast_dtype(context.plan.strategy) != "float32") return;
  found.error("strategy.autocast", context.plan.span("strategy.autocast_dtype"),
              "autocast_dtype = \"float32\" does nothing: autocast only lowers the precision",
              "autocast_dtype = \"bfloat16\", or remove the key");
}

constexpr std::array<Rule, 12> kRules = {{
    {.id = "tp.strategy",
     .summary = "ddp does not support tensor parallelism",
     .explain = "ddp keeps a whole model on every rank. Use the strategy fsdp2 (or megatron_fsdp) "
                "with tp_size > 1; with dp_size = 1 fsdp2 shards nothing and tensor parallelism is "
                "all that remains.",
     .check = check_tp},
    {.id = "pp.strategy",
     .summary = "only fsdp2 and megatron support pipeline parallelism",
     .explain = "ddp and megatron_fsdp wrap the whole model; a pipeline stage is a part of it. As "
                "in NeMo AutoModel, pipelines are combined with fsdp2. The strategy megatron, "
                "Megatron's own data parallelism, has them too.",
     .check = check_pp},
    {.id = "cp.strategy",
     .summary = "ddp does not support context parallelism",
     .explain =
         "Context parallelism cuts the sequence over cp ranks, whose gradients are reduced with "
         "those of the data-parallel ranks. fsdp2 and megatron_fsdp reduce over dp and cp "
         "together; ddp reduces only over dp.",
     .check = check_cp},
    {.id = "ep.experts",
     .summary = "expert parallelism needs a model with experts, and ep_size divides their number",
     .explain = "ep_size > 1 places whole experts on different ranks, the same number on each, so "
                "it must divide the number of experts. A dense model has no experts, and ep_size "
                "would do nothing.",
     .check = check_ep},
    {.id = "hsdp.strategy",
     .summary = "dp_replicate_size > 1 (hybrid sharding) needs fsdp2, or megatron",
     .explain =
         "ddp replicates over all of dp anyway. megatron_fsdp shards over one flat group, as in "
         "NeMo AutoModel. fsdp2 has a two-dimensional (dp_replicate, dp_shard) mesh. For megatron "
         "dp_replicate_size is the number of instances of the distributed optimizer.",
     .check = check_hsdp},
    {.id = "strategy.async_tp",
     .summary = "asynchronous tensor parallelism needs sequence parallelism",
     .explain = "The overlap splits the all-gather before and the reduce-scatter after each pair "
                "of linear layers. Without sequence parallelism there is an all-reduce instead, "
                "which cannot be split.",
     .check = check_async_tp},
    {.id = "strategy.reshard",
     .summary = "a number for reshard_after_forward divides the sharding group",
     .explain = "After forward a unit's parameters can be kept on a smaller group than the one "
                "they are sharded over (usually one node), so that backward's all-gather stays "
                "inside it. That group's size must divide dp_shard * cp.",
     .check = check_reshard},
    {.id = "strategy.autocast",
     .summary = "autocast_dtype is a 16-bit dtype",
     .explain =
         "Under autocast matrix products and attention run in autocast_dtype and the rest "
         "stays as it is. torch.autocast treats float32 as a mistake and turns itself off. "
         "To compute in float32, leave the key out and, under fsdp2, also set "
         "mp_policy.param_dtype = \"float32\". "
         "Weights that are stored in float32 stay float32: each product casts them. fsdp2 and ddp "
         "have the key.",
     .check = check_autocast},
    {.id = "strategy.fp8",
     .summary = "products in FP8 need GPUs with FP8 units, and matrices of fitting sizes",
     .explain =
         "strategy.fp8 multiplies the matrices of attention and of dense feed-forwards in FP8, "
         "forward and backward, by torchao's recipes \"tensorwise\" and \"rowwise\". Weights, "
         "gradients and optimizer states keep their dtypes. The embedding, the head, routers and "
         "experts are not in FP8, nor are matrices whose sizes are not multiples of 16. GPUs "
         "have FP8 units from Ada and Hopper (H100) on; these need multiples of 16 also after "
         "tensor parallelism has cut a matrix.\n\n"
         "Transformer Engine's recipes \"delayed\", \"block\", \"mxfp8\" and \"nvfp4\", and "
         "\"tensorwise\" under the strategy megatron, apply to all matrices of the layers, those "
         "of experts included; a matrix whose sizes do not fit is an error. MXFP8 and NVFP4 exist "
         "from Blackwell on, and MXFP8 needs multiples of 32. am-run runs only torchao's recipes.",
     .check = check_fp8},
    {.id = "strategy.float32",
     .summary = "a strategy without a mixed-precision policy computes in float32 (a warning)",
     .explain = "fsdp2 has mp_policy, by default bfloat16 with reductions in float32. ddp and "
                "megatron_fsdp compute in the dtype that they store, model.dtype, which is float32 "
                "by default. On a GPU, float32 has only a fraction of bfloat16's speed, and the "
                "prediction is not comparable with fsdp2's. With autocast_dtype, ddp computes "
                "matrix products in 16 bits and keeps its weights in float32. The warning appears "
                "if [cluster] gpu or the backend names a GPU.",
     .check = check_float32},
    {.id = "strategy.ignored_params",
     .summary = "every glob of ignored_params matches a parameter",
     .explain = "ignored_params lists globs over the names of parameters that FSDP leaves whole on "
                "every data-parallel rank, as fully_shard's argument does. PyTorch also leaves "
                "their gradients to the user; automesh sums them over the data-parallel ranks when "
                "backward is over, so that the copies stay equal.",
     .check = nullptr},
    {.id = "strategy.shard_placement",
     .summary = "every glob of shard_placement matches parameters that can be cut evenly on the "
                "given dimension",
     .explain = "shard_placement = { \"model.layers.*.mlp.down_proj.weight\" = 1 } cuts parameters "
                "on another dimension than 0, as fully_shard's shard_placement_fn does. As in "
                "PyTorch, shards may be uneven only on dimension 0: any other dimension must be "
                "divisible by the number of ranks that parameters are sharded over, after the cut "
                "over tp. If several globs match, the last one applies.",
     .check = nullptr},
}};

}  // namespace

std::span<const Rule> strategy_rules() { return kRules; }

}  // namespace am::rules
