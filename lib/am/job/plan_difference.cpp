#include "am/job/plan_difference.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "am/base/text.h"
#include "am/config/batch.h"
#include "am/config/field.h"
#include "am/config/schedule_names.h"
#include "am/layout/layout.h"
#include "am/layout/precision.h"
#include "am/layout/stages.h"
#include "am/rules/catalogue.h"

namespace am::job {
namespace {

using config::Plan;

void flatten(const std::string& key, const Json& value, std::map<std::string, Json>& out,
             std::vector<std::string>& order) {
  // A TP plan is compared as one value, because its keys are patterns of module names instead of
  // options.
  if (value.is_object() && key != "strategy.tp_plan") {
    for (const auto& [name, member] : value.items()) {
      flatten(cat(key, ".", name), member, out, order);
    }
    return;
  }
  if (out.emplace(key, value).second) order.push_back(key);
}

struct Flat {
  std::map<std::string, Json> values;
  std::vector<std::string> order;
};

Flat flatten(const Plan& plan) {
  Flat flat;
  const Json json = to_json(plan);
  for (const auto& [section, keys] : json.items()) {
    for (const auto& [key, value] : keys.items()) {
      flatten(cat(section, ".", key), value, flat.values, flat.order);
    }
  }
  return flat;
}

bool equal(const Json& a, const Json& b) {
  if (a.is_number() && b.is_number() && (a.is_number_float() || b.is_number_float())) {
    const auto x = a.get<double>();
    const auto y = b.get<double>();
    return std::abs(x - y) <= 1e-12 * std::max(std::abs(x), std::abs(y));
  }
  if (a.is_array() && b.is_array() && a.size() == b.size()) {
    return std::equal(a.begin(), a.end(), b.begin(), equal);
  }
  return a == b;
}

// Returns the value of a key in the plan `flat`. If this plan's strategy does not have the key,
// returns the key's value in `defaults`, the default plan of the other plan's strategy. Returns
// null if neither plan has the key.
Json value_in(const Flat& flat, const Flat& defaults, const std::string& key) {
  if (const auto at = flat.values.find(key); at != flat.values.end()) return at->second;
  if (const auto at = defaults.values.find(key); at != defaults.values.end()) return at->second;
  return nullptr;
}

// Replaces pipeline.balance and pipeline.split_points by equivalent split points. Leaves
// pipeline.split_points empty if the layers are split evenly over the stages.
void settle_split(Plan& plan, const model::ModelConfig& config, int64_t stages) {
  const std::vector<int> stage_of = layout::stage_of_layers(plan, config, stages);
  plan.pipeline.split_points.clear();
  plan.pipeline.balance = "layers";
  if (stage_of == layout::stages_of_even_layers(config.num_hidden_layers, stages)) return;
  for (int64_t stage = 1; stage < stages; ++stage) {
    const auto first = std::lower_bound(stage_of.begin(), stage_of.end(), static_cast<int>(stage));
    plan.pipeline.split_points.push_back(first - stage_of.begin());
  }
}

void settle_pipeline(Plan& plan, const mesh::MeshSizes& sizes, const model::ModelConfig& config) {
  if (sizes.pp == 1) {
    plan.pipeline = {};
    return;
  }
  plan.pipeline.microbatches = layout::pipeline_shape(plan, sizes.pp, sizes.dp()).microbatches;
  if (config::is_schedule_file(plan.pipeline.schedule)) {
    plan.pipeline.schedule = plan.resolve(plan.pipeline.schedule).string();
  }
  if (config.num_hidden_layers > 0) {
    settle_split(plan, config, sizes.pp * plan.pipeline.virtual_stages);
  }
}

void settle_mesh(Plan& plan, const mesh::MeshSizes& sizes) {
  plan.mesh.world_size = sizes.world_size();
  plan.mesh.dp_size = sizes.dp();
  plan.mesh.ranks_per_node = std::min(plan.mesh.ranks_per_node, sizes.world_size());
  if (std::holds_alternative<config::DDPConfig>(plan.strategy)) plan.mesh.dp_replicate_size = 1;
}

// Resets keys without effect, and replaces values that have equal effects by one of them.
void settle_megatron(config::MegatronConfig& megatron, const mesh::MeshSizes& sizes) {
  if (sizes.tp == 1) megatron.sequence_parallel = false;
  if (megatron.params_dtype == "float32") megatron.grad_reduce_in_fp32 = true;
  if (megatron.zero == 0) megatron.overlap_param_gather = false;
  if (megatron.activation_checkpointing == config::ActivationCheckpointing::kFull) {
    const bool uniform = megatron.recompute_method == "uniform";
    if (uniform && megatron.recompute_num_layers == 1) megatron.recompute_num_layers = 0;
  }
}

void settle_strategy(Plan& plan, const mesh::MeshSizes& sizes) {
  if (auto* megatron = std::get_if<config::MegatronConfig>(&plan.strategy)) {
    return settle_megatron(*megatron, sizes);
  }
  auto* fsdp2 = std::get_if<config::FSDP2Config>(&plan.strategy);
  if (fsdp2 == nullptr) return;
  const config::FSDP2Config none;
  if (sizes.tp == 1) {
    fsdp2->sequence_parallel = false;
    fsdp2->enable_async_tensor_parallel = false;
    fsdp2->tp_plan = none.tp_plan;
  }
  // Without autocast, all activations have the compute dtype. Therefore cast_forward_inputs has no
  // effect. output_dtype has no effect either if it equals the compute dtype.
  const layout::StepPrecision precision = layout::resolve_precision(plan);
  if (precision.products == precision.compute) {
    config::MixedPrecisionPolicy& policy = fsdp2->mp_policy;
    if (policy.output_dtype == precision.products)
      policy.output_dtype = none.mp_policy.output_dtype;
    policy.cast_forward_inputs = none.mp_policy.cast_forward_inputs;
  }
  if (!fsdp2->enable_fsdp2_prefetch) {
    fsdp2->fsdp2_backward_prefetch_depth = none.fsdp2_backward_prefetch_depth;
    fsdp2->fsdp2_forward_prefetch_depth = none.fsdp2_forward_prefetch_depth;
  }
}

// Replaces the strategy's default of cluster.implementation by "automesh". Thus two plans with
// different strategies do not differ in this key if neither plan sets it.
void settle_implementation(Plan& plan) {
  if (plan.cluster.implementation != config::default_implementation(plan.strategy)) return;
  plan.cluster.implementation = config::ClusterSection().implementation;
}

void settle_training(Plan& plan, const mesh::MeshSizes& sizes) {
  plan.train.global_batch_size = config::batch_shape(plan, sizes.dp()).sequences;
  config::SchedulerSection& scheduler = plan.scheduler;
  if (scheduler.name == "constant") {
    scheduler.min_lr = 0.0;
    scheduler.decay_steps = 0;
  } else if (scheduler.name != "wsd" && scheduler.decay_steps == 0) {
    scheduler.decay_steps = plan.train.max_steps;
  }
  const config::DataSection none;
  if (plan.data.is_synthetic()) plan.data.path.clear();
  if (!plan.data.has_kind("tokens")) plan.data.token_dtype = none.token_dtype;
  if (!plan.data.reads_text()) plan.data.tokenizer = none.tokenizer;
  if (!plan.data.has_examples()) {
    plan.data.loss_on = none.loss_on;
    plan.data.max_length = none.max_length;
    plan.data.on_long = none.on_long;
    plan.data.packing = none.packing;
    plan.data.columns.clear();
  }
}

}  // namespace

std::vector<PlanDifference> differences(const Plan& a, const Plan& b) {
  const Flat flat_a = flatten(a);
  const Flat flat_b = flatten(b);
  const Flat defaults_a = flatten(config::default_plan(config::strategy_name(a.strategy)));
  const Flat defaults_b = flatten(config::default_plan(config::strategy_name(b.strategy)));
  std::vector<std::string> order = flat_a.order;
  for (const std::string& key : flat_b.order) {
    if (flat_a.values.count(key) == 0) order.push_back(key);
  }
  std::vector<PlanDifference> out;
  for (const std::string& key : order) {
    Json in_a = value_in(flat_a, defaults_b, key);
    Json in_b = value_in(flat_b, defaults_a, key);
    if (!equal(in_a, in_b)) out.push_back({key, std::move(in_a), std::move(in_b)});
  }
  return out;
}

Plan canonical(Plan plan, const model::ModelConfig& config) {
  settle_implementation(plan);
  Diagnostics ignored;
  const auto sizes = layout::resolve_mesh(plan, 0, ignored);
  if (!sizes.has_value()) return plan;
  settle_pipeline(plan, *sizes, config);
  settle_mesh(plan, *sizes);
  settle_strategy(plan, *sizes);
  settle_training(plan, *sizes);
  return plan;
}

}  // namespace am::job
