// Rules on the strategy megatron: the conditions of Megatron-LM that plans can violate.
// frameworks/megatron/rules.cpp checks the same conditions for `am-plan check --dialect megatron`,
// which also judges plans of other strategies.
#include <algorithm>
#include <array>
#include <variant>

#include "am/base/legal_values.h"
#include "am/base/text.h"
#include "am/cluster/implementation.h"
#include "am/config/batch.h"
#include "am/config/recomputation.h"
#include "am/layout/stages.h"
#include "am/rules/catalogue.h"

namespace am::rules {
namespace {

using config::ActivationCheckpointing;

const config::MegatronConfig* megatron(const RuleContext& context) {
  return std::get_if<config::MegatronConfig>(&context.plan.strategy);
}

// Reports an error if the number of instances of the distributed optimizer does not divide the
// number of copies of an expert.
void check_expert_copies(const RuleContext& context, int64_t instances, Diagnostics& found) {
  if (context.mesh == nullptr || context.model == nullptr || !context.model->moe) return;
  const mesh::MeshSizes& mesh = *context.mesh;
  const int64_t copies = mesh.dp() * mesh.cp * mesh.tp / (mesh.ep * mesh.etp);
  if (copies % instances == 0) return;
  found.error("strategy.optimizer_instances", context.plan.span("mesh.dp_replicate_size"),
              cat("dp_replicate_size = ", instances,
                  " does not divide dp_size * cp_size * tp_size / (ep_size * etp_size) = ", copies,
                  ", the number of copies of each expert"),
              assignment("dp_replicate_size", nearest_values(divisors(copies), instances)));
}

void check_instances(const RuleContext& context, Diagnostics& found) {
  const auto* config = megatron(context);
  const int64_t instances = context.plan.mesh.dp_replicate_size;
  if (config == nullptr || instances == 1) return;
  if (config->zero > 0) return check_expert_copies(context, instances, found);
  found.error("strategy.optimizer_instances", context.plan.span("mesh.dp_replicate_size"),
              cat("dp_replicate_size = ", instances, " means ", instances,
                  " instances of the distributed optimizer, but zero = 0 turns it off"),
              "dp_replicate_size = 1, or zero = 1");
}

void check_expert_tp(const RuleContext& context, Diagnostics& found) {
  const auto* config = megatron(context);
  if (config == nullptr || context.model == nullptr) return;
  const config::Plan& plan = context.plan;
  const auto& moe = context.model->moe;
  if (!moe) {
    if (config->etp_size <= 1) return;
    found.error("strategy.etp", plan.span("strategy.etp_size"),
                cat("etp_size = ", config->etp_size, ", but a ", context.model->model_type,
                    " model has no experts"),
                "remove etp_size");
    return;
  }
  const int64_t etp = config->expert_tp(plan.mesh.tp_size);
  const int64_t width = moe->expert_width;
  if (etp < 1 || width % etp == 0) return;
  const bool given = plan.given("strategy.etp_size");
  found.error("strategy.etp", plan.span(given ? "strategy.etp_size" : "mesh.tp_size"),
              cat(given ? "etp_size = " : "etp_size = tp_size = ", etp,
                  " does not divide the experts' width of ", width),
              assignment("etp_size", nearest_values(divisors(width), etp)));
}

void check_moe_sequence(const RuleContext& context, Diagnostics& found) {
  const auto* config = megatron(context);
  const int64_t tp = context.plan.mesh.tp_size;
  if (config == nullptr || context.model == nullptr || !context.model->moe) return;
  if (tp == 1 || config->sequence_parallel) return;
  found.error("strategy.moe_sequence", context.plan.span("mesh.tp_size"),
              cat("a model with experts and tp_size = ", tp, " needs sequence_parallel = true"),
              "sequence_parallel = true, or tp_size = 1");
}

// ---- pipeline -----------------------------------------------------------------------------------

void check_schedule(const RuleContext& context, Diagnostics& found) {
  const config::Plan& plan = context.plan;
  if (megatron(context) == nullptr || plan.mesh.pp_size == 1) return;
  const std::string& name = plan.pipeline.schedule;
  if (name == "1f1b" || name == "interleaved_1f1b") return;
  const auto* who = cluster::find_implementation(plan.cluster.implementation);
  if (who != nullptr && who->any_schedule) return;
  found.error("pp.megatron", plan.span("pipeline.schedule"),
              cat("Megatron has no schedule \"", name, "\""),
              "schedule = \"1f1b\", or \"interleaved_1f1b\" with virtual_stages");
}

void check_one_round(const RuleContext& context, Diagnostics& found) {
  const config::Plan& plan = context.plan;
  if (megatron(context) == nullptr || plan.mesh.pp_size == 1 || !context.dp) return;
  const config::BatchShape batch = config::batch_shape(plan, *context.dp);
  // The rules batch.* and pp.microbatches report other errors in the number of micro-batches.
  if (!batch.divides_over_ranks() || !batch.divides_into_rounds()) return;
  if (batch.in_round != batch.micro_batches) {
    found.error("pp.megatron", plan.span("pipeline.microbatches"),
                cat("Megatron runs all ", batch.micro_batches,
                    " micro-batches of a step in one round, but microbatches = ", batch.in_round),
                cat("microbatches = ", batch.micro_batches, ", or leave it out"));
  } else if (plan.pipeline.virtual_stages > 1 && batch.micro_batches % plan.mesh.pp_size != 0) {
    const int64_t round = batch.one_each * plan.mesh.pp_size;
    found.error("pp.megatron", plan.span("train.global_batch_size"),
                cat(batch.micro_batches, " micro-batches are not a multiple of pp_size = ",
                    plan.mesh.pp_size, ", which virtual stages need"),
                cat("train.global_batch_size = ",
                    join(nearest_multiples(round, batch.sequences), ", ", " or "),
                    "; or virtual_stages = 1"));
  }
}

void check_pipeline(const RuleContext& context, Diagnostics& found) {
  check_schedule(context, found);
  check_one_round(context, found);
}

// ---- recomputation ------------------------------------------------------------------------------

class Recomputation {
 public:
  Recomputation(const RuleContext& context, const config::MegatronConfig& config,
                Diagnostics& found)
      : context_(context), config_(config), found_(found) {}

  void check() const {
    const ActivationCheckpointing mode = config_.activation_checkpointing;
    if (mode == ActivationCheckpointing::kMlp) {
      error("activation_checkpointing",
            "Megatron does not support activation_checkpointing = \"mlp\"",
            "activation_checkpointing = \"selective\" and recompute_modules = [\"mlp\"]");
    }
    if (mode != ActivationCheckpointing::kSelective && !config_.recompute_modules.empty()) {
      error("recompute_modules", "recompute_modules needs activation_checkpointing = \"selective\"",
            "activation_checkpointing = \"selective\", or remove recompute_modules");
    }
    if (mode == ActivationCheckpointing::kFull) {
      check_layers();
    } else if (config_.recompute_num_layers > 0) {
      error("recompute_num_layers",
            "recompute_num_layers needs activation_checkpointing = \"full\"",
            "activation_checkpointing = \"full\", or remove recompute_num_layers");
    }
    if (mode == ActivationCheckpointing::kSelective) check_modules();
  }

 private:
  void error(const char* key, const std::string& message, const std::string& help) const {
    found_.error("strategy.recompute", context_.plan.span(cat("strategy.", key)), message, help);
  }

  void check_layers() const {
    const int64_t count = config_.recompute_num_layers;
    if (config_.recompute_method == "block" && count == 0) {
      error("recompute_method", "recompute_method = \"block\" needs recompute_num_layers",
            "recompute_num_layers = 1 or more");
    }
    if (context_.model == nullptr || context_.axes == nullptr) return;
    const int64_t layers = context_.model->num_hidden_layers;
    const int64_t pp = context_.axes->pp;
    const int64_t stages = pp > 1 ? pp * context_.plan.pipeline.virtual_stages : 1;
    if (stages > layers + 2) return;  // the rule pp.layers reports the error
    const std::vector<int> stage_of =
        layout::stage_of_layers(context_.plan, *context_.model, stages);
    int64_t most = 0;
    for (int64_t stage = 0; stage < stages; ++stage) {
      most = std::max<int64_t>(most, std::count(stage_of.begin(), stage_of.end(), stage));
    }
    if (count <= most) return;
    error("recompute_num_layers",
          cat("recompute_num_layers = ", count, ", but no stage has more than ", most,
              most == 1 ? " layer" : " layers"),
          cat("legal values: 0 to ", most));
  }

  void check_modules() const {
    const auto modules = config::recomputed_modules(config_.recompute_modules);
    if (context_.model == nullptr) return;
    const auto& moe = context_.model->moe;
    const auto lacks = [&](bool wanted, bool has, const char* module, const char* what) {
      if (!wanted || has) return;
      error("recompute_modules",
            cat("recompute_modules has \"", module, "\", but a ", context_.model->model_type,
                " model has no ", what),
            cat("remove \"", module, "\" from recompute_modules"));
    };
    lacks(modules.moe, moe.has_value(), "moe", "experts");
    lacks(modules.moe_act, moe.has_value(), "moe_act", "experts");
    lacks(modules.shared_experts, moe && moe->shared_width > 0, "shared_experts", "shared experts");
    lacks(modules.mla_up_proj, context_.model->mla.has_value(), "mla_up_proj",
          "latent attention (MLA)");
  }

  const RuleContext& context_;
  const config::MegatronConfig& config_;
  Diagnostics& found_;
};

void check_recomputation(const RuleContext& context, Diagnostics& found) {
  const auto* config = megatron(context);
  if (config != nullptr) Recomputation(context, *config, found).check();
}

// ---- other keys ---------------------------------------------------------------------------------

void check_overlap(const RuleContext& context, Diagnostics& found) {
  const auto* config = megatron(context);
  if (config == nullptr || config->zero == 0) return;
  if (!config->overlap_param_gather || config->overlap_grad_reduce) return;
  found.error("strategy.overlap_gather", context.plan.span("strategy.overlap_grad_reduce"),
              "overlap_param_gather = true needs overlap_grad_reduce = true",
              "overlap_grad_reduce = true, or overlap_param_gather = false");
}

void check_implementation(const RuleContext& context, Diagnostics& found) {
  if (megatron(context) == nullptr) return;
  const std::string& name = context.plan.cluster.implementation;
  const cluster::Implementation* who = cluster::find_implementation(name);
  if (who == nullptr || cluster::runs_megatron(*who)) return;
  std::vector<std::string> legal;
  for (const cluster::Implementation& one : cluster::implementations()) {
    if (cluster::runs_megatron(one)) legal.push_back(cat("\"", one.name, "\""));
  }
  found.error("strategy.implementation", context.plan.span("cluster.implementation"),
              cat("implementation = \"", name, "\" does not have Megatron's distributed optimizer"),
              cat("legal: ", join(legal, ", ")));
}

constexpr std::array<Rule, 7> kRules = {{
    {.id = "strategy.optimizer_instances",
     .summary = "megatron: instances of the distributed optimizer need zero = 1 or 2",
     .explain =
         "dp_replicate_size is Megatron's --num-distributed-optimizer-instances: each "
         "instance shards the optimizer states over its own part of dp * cp, and the "
         "instances are copies of each other. With zero = 0 every rank has all states. Experts "
         "have fewer copies, dp_size * cp_size * tp_size / (ep_size * etp_size), which the "
         "instances must divide too.",
     .check = check_instances},
    {.id = "strategy.etp",
     .summary = "megatron: etp_size divides the experts' width",
     .explain = "etp_size ranks share each expert, cut along its width into equal parts. It "
                "equals tp_size unless it is given; etp_size = 1 with a large tp_size keeps "
                "experts whole, and ep_size can then be larger. ep_size * etp_size must divide "
                "dp_size * cp_size * tp_size.",
     .check = check_expert_tp},
    {.id = "strategy.moe_sequence",
     .summary = "megatron: experts with tp_size > 1 need sequence_parallel",
     .explain = "Without sequence parallelism every tensor-parallel rank would route every token. "
                "Megatron's first training step then stops with an error.",
     .check = check_moe_sequence},
    {.id = "pp.megatron",
     .summary = "megatron: 1f1b or interleaved_1f1b runs all micro-batches of a step in one round",
     .explain =
         "Megatron chooses the schedule by the number of virtual stages, and runs "
         "global_batch_size / (micro_batch_size * dp) micro-batches in it. Without virtual stages, "
         "the micro-batches may be fewer than the stages, unlike in PyTorch's 1F1B; the pipeline "
         "is "
         "then never full. With virtual stages, the number of micro-batches must be a multiple of "
         "pp_size. implementation = \"megatron-zero-bubble\" stands for forks of Megatron-LM that "
         "run "
         "the other schedules too.",
     .check = check_pipeline},
    {.id = "strategy.recompute",
     .summary = "megatron: the keys of recomputation agree with each other and with the model",
     .explain =
         "activation_checkpointing = \"full\" is Megatron's --recompute-granularity full: with "
         "recompute_method = \"block\" the first recompute_num_layers layers of each stage are "
         "recomputed, with \"uniform\" all of them, in groups of recompute_num_layers layers that "
         "keep one input. \"selective\" recomputes recompute_modules in every layer: core_attn, "
         "mlp, layernorm, moe, mlp_act, moe_act, mla_up_proj, shared_experts.",
     .check = check_recomputation},
    {.id = "strategy.overlap_gather",
     .summary = "megatron: overlap_param_gather needs overlap_grad_reduce",
     .explain = "Gathers of updated parameters use hooks that only overlapped gradient reduction "
                "installs, so Megatron refuses overlap_param_gather without overlap_grad_reduce.",
     .check = check_overlap},
    {.id = "strategy.implementation",
     .summary = "megatron: [cluster] implementation is one with Megatron's distributed optimizer",
     .explain =
         "The strategy's memory and time are those of Megatron's data parallelism, which FSDP "
         "trainers do not have. implementation is \"megatron\" unless the plan gives another one. "
         "am-run runs the strategy too: with implementation = \"automesh\", am-plan predicts the "
         "memory and time of am-run, and `am-plan check` also reports the features that am-run "
         "lacks.",
     .check = check_implementation},
}};

}  // namespace

std::span<const Rule> megatron_rules() { return kRules; }

}  // namespace am::rules
