#include "am/frameworks/plan_builder.h"

#include <algorithm>
#include <utility>

#include "am/base/text.h"
#include "am/config/field.h"

namespace am::frameworks {

PlanBuilder::PlanBuilder(Source& source, std::string_view strategy, const model::ModelConfig* model)
    : source_(source), model_(model), plan_(config::default_plan(strategy)) {
  plan_.file = source.file();
  plan_.model.path = ".";
  keys_ = {"model.path", "strategy.name"};
}

bool PlanBuilder::knows(std::string_view key) const {
  const size_t dot = key.find('.');
  return config::find_field(key.substr(0, dot), key.substr(dot + 1),
                            config::strategy_name(plan_.strategy)) != nullptr;
}

void PlanBuilder::set(std::string_view key, const config::Value& value) {
  const size_t dot = key.find('.');
  const config::FieldSpec* field = config::find_field(key.substr(0, dot), key.substr(dot + 1),
                                                      config::strategy_name(plan_.strategy));
  if (field == nullptr) return;
  field->set({value, std::string(key), source_.found()}, plan_);
  plan_.spans[std::string(key)] = value.span;
  if (std::find(keys_.begin(), keys_.end(), key) == keys_.end()) keys_.emplace_back(key);
}

void PlanBuilder::set(std::string_view key, const std::vector<int64_t>& values,
                      std::string_view path) {
  std::vector<config::Value> items;
  for (const int64_t value : values) items.push_back(config::value_of(value, source_.span(path)));
  set(key, config::value_of(items, source_.span(path)));
}

void PlanBuilder::set_mp_policy(const std::string& param, const std::string& reduce,
                                const std::string& output, std::string_view path) {
  config::Value policy;
  policy.span = source_.span(path);
  policy.members = {{"param_dtype", policy.span, config::value_of(param, policy.span)},
                    {"reduce_dtype", policy.span, config::value_of(reduce, policy.span)},
                    {"output_dtype", policy.span, config::value_of(output, policy.span)}};
  set("strategy.mp_policy", policy);
}

void PlanBuilder::set_offload(bool pin_memory, std::string_view path) {
  config::Value offload;
  offload.span = source_.span(path);
  offload.members = {{"pin_memory", offload.span, config::value_of(pin_memory, offload.span)}};
  set("strategy.offload_policy", offload);
}

void PlanBuilder::set_betas(double first, double second, std::string_view path) {
  const Span span = source_.span(path);
  set("optimizer.betas",
      config::value_of({config::value_of(first, span), config::value_of(second, span)}, span));
}

void PlanBuilder::copy(std::string_view path, std::string_view key) {
  if (const config::Value* value = source_.take(path)) set(key, *value);
}

void PlanBuilder::lose(std::string_view path, std::string_view why) {
  const config::Value* value = source_.take(path);
  const std::string text = value != nullptr ? dump_json(to_json(*value), -1) : "null";
  lost_.push_back({std::string(path), text, std::string(why), source_.span(path)});
}

void PlanBuilder::name_model(std::string_view path) {
  if (auto name = source_.text(path)) {
    names_.push_back({std::string(path), *std::move(name), source_.span(path)});
  }
}

void PlanBuilder::set_mesh(const Axes& axes) {
  const Axis& shards = axes.dp_shard;
  if (shards.size > 0) {
    const int64_t dp = saturating_product({axes.dp_replicate.size, shards.size});
    set("mesh.world_size", saturating_product({dp, axes.tp.size, axes.pp.size, axes.cp.size}),
        shards.path);
    set("mesh.dp_size", dp, shards.path);
  } else {
    note("the launcher decides the number of ranks: add world_size to [mesh]");
  }
  const auto set_axis = [&](const char* key, const Axis& axis) {
    if (axis.size > 1) set(key, axis.size, source_.has(axis.path) ? axis.path : shards.path);
  };
  if (!std::holds_alternative<config::DDPConfig>(plan_.strategy)) {
    set_axis("mesh.dp_replicate_size", axes.dp_replicate);
  }
  set_axis("mesh.tp_size", axes.tp);
  set_axis("mesh.pp_size", axes.pp);
  set_axis("mesh.cp_size", axes.cp);
  set_axis("mesh.ep_size", axes.ep);
}

Imported PlanBuilder::done(std::vector<Ignored> ignored, std::string_view warmup_path) {
  const int64_t warmup = plan_.scheduler.warmup_steps;
  const bool counts = std::find(keys_.begin(), keys_.end(), "train.max_steps") != keys_.end();
  if (warmup > plan_.train.max_steps && counts) {
    lose(warmup_path, "the learning rate: the warm-up is longer than the job");
    set("scheduler.warmup_steps", plan_.train.max_steps);
  } else if (warmup > plan_.train.max_steps) {
    set("train.max_steps", warmup);
    note(
        "the file has no number of steps: train.max_steps is set to the warm-up steps; set your "
        "own number");
  }
  plan_.cluster.implementation = config::default_implementation(plan_.strategy);
  Imported imported{.plan = std::move(plan_)};
  imported.keys = std::move(keys_);
  imported.ignored = std::move(ignored);
  imported.lost = std::move(lost_);
  imported.names = std::move(names_);
  imported.notes = std::move(notes_);
  return imported;
}

bool is_local_data(std::string_view name) {
  for (const char* ending : {".jsonl", ".json", ".jsonl.gz", ".jsonl.zst", ".parquet"}) {
    if (ends_with(name, ending)) return true;
  }
  return starts_with(name, "/") || starts_with(name, "./") || starts_with(name, "../");
}

int64_t saturating_product(std::initializer_list<int64_t> factors) {
  constexpr int64_t kMost = int64_t{1} << 62;
  int64_t product = 1;
  for (const int64_t factor : factors) {
    if (factor > 0 && product > kMost / factor) return kMost;
    product *= factor;
  }
  return product;
}

}  // namespace am::frameworks
