#include "am/frameworks/framework_rules.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <variant>

#include "am/base/legal_values.h"
#include "am/base/text.h"
#include "am/layout/stages.h"

namespace am::frameworks {

namespace {

// Returns the sizes and options of the plan. `launched`: number of ranks that the launcher started;
// 0: unknown. `plan` and `model` must outlive the result.
FrameworkLayout framework_layout(const config::Plan& plan, const model::ModelConfig* model,
                                 int64_t launched) {
  FrameworkLayout layout;
  layout.megatron_fsdp = std::get_if<config::MegatronFSDPConfig>(&plan.strategy);
  layout.megatron = std::get_if<config::MegatronConfig>(&plan.strategy);
  layout.ddp = std::holds_alternative<config::DDPConfig>(plan.strategy);
  layout.dp_size = plan.mesh.dp_size;
  layout.dp_replicate = plan.mesh.dp_replicate_size;
  layout.tp = plan.mesh.tp_size;
  layout.cp = plan.mesh.cp_size;
  layout.pp = plan.mesh.pp_size;
  layout.ep = plan.mesh.ep_size;
  layout.world = launched > 0 ? launched : plan.mesh.world_size;
  if (layout.world == 0) layout.world = layout.dp_size * layout.replica();
  layout.etp = layout.megatron != nullptr ? layout.megatron->expert_tp(layout.tp) : layout.tp;
  layout.sequence_parallel = config::sequence_parallel(plan.strategy);
  layout.model = model;
  layout.seq_len = plan.train.seq_len;
  layout.micro_batch = plan.train.micro_batch_size;
  layout.global_batch = plan.train.global_batch_size;
  layout.pipeline = layout::pipeline_shape(plan, layout.pp, std::max<int64_t>(1, layout.dp()));
  layout.split_points = !plan.pipeline.split_points.empty() || plan.pipeline.balance == "cost";
  return layout;
}

}  // namespace

int64_t FrameworkLayout::dp() const {
  if (dp_size > 0) return dp_size;
  return world % replica() == 0 ? world / replica() : 0;
}

std::span<const FrameworkRules> all_framework_rules() {
  static const std::array<FrameworkRules, 3> all = {{
      {"torchtitan", "torchtitan 0.3.0", torchtitan_rules()},
      {"megatron", "Megatron-LM", megatron_rules()},
      {"nemo-automodel", "NeMo AutoModel 0.7.0", nemo_automodel_rules()},
  }};
  return all;
}

const FrameworkRules* find_framework_rules(std::string_view name) {
  const auto all = all_framework_rules();
  const auto found = std::find_if(all.begin(), all.end(),
                                  [&](const FrameworkRules& one) { return one.name == name; });
  return found == all.end() ? nullptr : &*found;
}

std::vector<std::string> rule_framework_names() {
  std::vector<std::string> names;
  for (const FrameworkRules& framework : all_framework_rules()) names.emplace_back(framework.name);
  return names;
}

void judge(const FrameworkRules& framework, const config::Plan& plan,
           const model::ModelConfig* model, int64_t world_size, Diagnostics& found) {
  Diagnostics own;
  const layout::MeshDraft draft = layout::draft_mesh(plan, world_size, own);
  for (const Diagnostic& item : own.items()) {
    if (item.rule == "mesh.size" || item.rule == "mesh.world") found.add(item);
  }
  if (!draft.axes.has_value()) return;
  const FrameworkLayout layout = framework_layout(plan, model, world_size);
  if (layout.world == 0) return;
  for (const FrameworkRule& one : framework.rules) {
    if (one.reads == Reads::kModel && model == nullptr) continue;
    Violations violations;
    one.check(layout, violations);
    for (const Violation& violation : violations) {
      found.add({std::string(one.rule.id), one.severity, plan.span(violation.key),
                 cat(violation.message, " (", one.rule.summary, ")"), violation.help});
    }
  }
}

rules::CheckedFile check_file_as(const FrameworkRules& framework, const std::filesystem::path& file,
                                 const std::vector<config::Override>& overrides, int64_t world_size,
                                 Diagnostics& found) {
  const auto judge_plan = [&](const config::Plan& plan, Diagnostics& ruled) {
    rules::CheckedPlan checked;
    checked.model = rules::load_model(plan, ruled);
    judge(framework, plan, checked.model.has_value() ? &*checked.model : nullptr, world_size,
          ruled);
    return checked;
  };
  return rules::check_file_by(judge_plan, file, overrides, found);
}

std::vector<const rules::Rule*> every_rule() {
  const auto own = rules::all_rules();
  std::vector<const rules::Rule*> every(own.begin(), own.end());
  for (const FrameworkRules& framework : all_framework_rules()) {
    for (const FrameworkRule& one : framework.rules) every.push_back(&one.rule);
  }
  return every;
}

const rules::Rule* find_any_rule(std::string_view id) {
  for (const FrameworkRules& framework : all_framework_rules()) {
    for (const FrameworkRule& one : framework.rules) {
      if (one.rule.id == id) return &one.rule;
    }
  }
  return rules::find_rule(id);
}

void demand_whole_heads(const FrameworkLayout& layout, const char* name, int64_t heads,
                        Violations& found) {
  if (heads % layout.tp == 0) return;
  const int64_t both =
      std::gcd(layout.model->num_attention_heads, layout.model->num_key_value_heads);
  found.push_back({"mesh.tp_size",
                   cat("tp_size = ", layout.tp, " does not divide ", name, " = ", heads),
                   nearest_divisors("tp_size", both, layout.tp)});
}

void check_even_experts(const FrameworkLayout& layout, Violations& found) {
  const int64_t experts = layout.experts();
  if (experts == 0 || experts % layout.ep == 0) return;
  found.push_back({"mesh.ep_size",
                   cat("ep_size = ", layout.ep, " does not divide the ", experts, " experts"),
                   nearest_divisors("ep_size", experts, layout.ep)});
}

void check_tied(const FrameworkLayout& layout, Violations& found) {
  if (layout.pp == 1 || !layout.model->tie_word_embeddings) return;
  found.push_back({"mesh.pp_size",
                   cat("tied embeddings are not supported with pp_size = ", layout.pp),
                   "pp_size = 1, or choose a model with tie_word_embeddings = false"});
}

void check_not_megatron(const FrameworkLayout& layout, Violations& found) {
  if (layout.megatron == nullptr) return;
  found.push_back(
      {"strategy.name", "only Megatron has the strategy megatron", "strategy name = \"fsdp2\""});
}

void check_torch_schedule(const FrameworkLayout& layout, Violations& found) {
  if (layout.pp == 1) return;
  pipeline::PipelineShape shape = layout.pipeline;
  shape.may_stay_partly_full = false;
  if (shape.schedule == "interleaved_zero_bubble" && shape.virtual_stages == 1) {
    found.push_back({"pipeline.virtual_stages",
                     "PyTorch does not run interleaved_zero_bubble with 1 stage on each rank",
                     "virtual_stages = 2 or more"});
  }
  const auto constraint = pipeline::violated_constraint(shape);
  if (!constraint.has_value()) return;
  found.push_back({cat("pipeline.", constraint->key), constraint->message,
                   assignment(constraint->key, constraint->nearest)});
}

void demand_whole_batches(const FrameworkLayout& layout, int64_t of_all_ranks, Violations& found) {
  if (of_all_ranks == 0 || layout.global_batch % of_all_ranks == 0) return;
  found.push_back(
      {"train.global_batch_size",
       cat("global_batch_size = ", layout.global_batch,
           " is not a multiple of local_batch_size * dp = ", of_all_ranks),
       assignment("global_batch_size", nearest_multiples(of_all_ranks, layout.global_batch))});
}

std::string nearest_divisors(const char* key, int64_t of, int64_t wanted) {
  return assignment(key, nearest_values(divisors(of), wanted));
}

}  // namespace am::frameworks
