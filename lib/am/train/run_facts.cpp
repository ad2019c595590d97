#include "am/train/run_facts.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <optional>
#include <string_view>
#include <utility>

#include "am/base/text.h"
#include "am/config/field.h"
#include "am/model/family.h"

namespace am::train {

namespace {

enum class Part { kNone, kNoted, kBreaks };

struct Rule {
  std::string_view name;  // name of a section or of a key; a key's rule overrides its section's
  Part part;
};

// Effect of a difference in one of the plan's keys when a job resumes: not compared (kNone), logged
// (kNoted), or an error (kBreaks). A key for which neither the key nor its section has a rule is
// kBreaks, so that new keys are compared.
constexpr std::array kRules = {
    Rule{"model.path", Part::kNone},  // the model's config.json is compared instead
    Rule{"model.weights", Part::kNoted},
    Rule{"mesh", Part::kNone},
    Rule{"strategy", Part::kNone},
    Rule{"pipeline", Part::kNone},
    Rule{"context", Part::kNone},
    Rule{"experts", Part::kNoted},
    Rule{"lora.weights", Part::kNoted},
    Rule{"lora.merge", Part::kNone},
    Rule{"lora.loraplus_lr_ratio", Part::kNoted},
    Rule{"train", Part::kNoted},
    Rule{"train.seq_len", Part::kBreaks},
    Rule{"train.global_batch_size", Part::kBreaks},
    Rule{"train.seed", Part::kBreaks},
    Rule{"train.micro_batch_size", Part::kNone},
    Rule{"train.max_steps", Part::kNone},
    Rule{"train.epochs", Part::kNone},
    Rule{"train.max_tokens", Part::kNone},
    Rule{"train.max_time", Part::kNone},
    Rule{"optimizer.lr", Part::kNoted},
    Rule{"optimizer.eps", Part::kNoted},
    Rule{"optimizer.weight_decay", Part::kNoted},
    Rule{"optimizer.no_decay", Part::kNoted},
    Rule{"optimizer.adjust_lr", Part::kNoted},
    Rule{"optimizer.ema_decay", Part::kNoted},
    Rule{"optimizer.group", Part::kNoted},
    Rule{"scheduler", Part::kNoted},
    // Paths and tokenizers may differ, because the tokens themselves are compared
    // ("data.fingerprint").
    Rule{"data.path", Part::kNoted},
    Rule{"data.tokenizer", Part::kNoted},
    Rule{"data.prepared", Part::kNone},
    Rule{"data.token_dtype", Part::kNone},
    Rule{"validation", Part::kNone},
    Rule{"checkpoint", Part::kNone},
    Rule{"metrics", Part::kNone},
    Rule{"runtime", Part::kNone},
    Rule{"cluster", Part::kNone},
};

Part part_of(std::string_view key) {
  const auto find = [](std::string_view name) {
    return std::find_if(kRules.begin(), kRules.end(),
                        [&](const Rule& rule) { return rule.name == name; });
  };
  if (const auto rule = find(key); rule != kRules.end()) return rule->part;
  const auto rule = find(key.substr(0, key.find('.')));
  return rule != kRules.end() ? rule->part : Part::kBreaks;
}

// Returns `value` with each path replaced by its last component, because data and weights may have
// moved to another folder. `value`: a path, a table with a path under the key "path", or an array
// of paths and tables.
Json without_folders(const Json& value) {
  if (value.is_array()) {
    Json names = Json::array();
    for (const Json& each : value) names.push_back(without_folders(each));
    return names;
  }
  if (value.is_object()) {
    Json table = value;
    table["path"] = without_folders(value.at("path"));
    return table;
  }
  std::filesystem::path path = value.get<std::string>();
  if (!path.has_filename()) path = path.parent_path();
  return path.filename().string();
}

// Returns a text with one digit per layer: 1 if the layer's element is true, otherwise 0.
Json layer_kinds(const std::vector<bool>& layers) {
  std::string text;
  for (const bool layer : layers) text += layer ? '1' : '0';
  return text;
}

// Adds facts under names that begin with `prefix`. An empty optional becomes null. A run in which
// the optional is set therefore differs from a run in which it is empty.
class Facts {
 public:
  Facts(std::string prefix, Json& facts) : prefix_(std::move(prefix)), facts_(facts) {}

  template <typename Value>
  void operator()(const char* name, const Value& value) {
    facts_[prefix_ + name] = value;
  }
  template <typename Value>
  void operator()(const char* name, const std::optional<Value>& value) {
    facts_[prefix_ + name] = value ? Json(*value) : Json();
  }

 private:
  std::string prefix_;
  Json& facts_;
};

void add_rope(const std::string& prefix, const std::optional<model::RopeConfig>& given,
              Json& facts) {
  Facts add(prefix, facts);
  const model::RopeConfig rope = given.value_or(model::RopeConfig{.type = "none"});
  add("type", rope.type);
  add("theta", rope.theta);
  add("factor", rope.factor);
  add("low_freq_factor", rope.low_freq_factor);
  add("high_freq_factor", rope.high_freq_factor);
  add("original_max_position_embeddings", rope.original_max_position_embeddings);
  add("beta_fast", rope.beta_fast);
  add("beta_slow", rope.beta_slow);
  add("truncate", rope.truncate);
  add("mscale", rope.mscale);
  add("mscale_all_dim", rope.mscale_all_dim);
  add("attention_factor", rope.attention_factor);
  add("short_factor", rope.short_factor);
  add("long_factor", rope.long_factor);
  add("rotated_part", rope.rotated_part);
}

void add_latent(const std::optional<model::MlaConfig>& given, Json& facts) {
  Facts add("config.mla.", facts);
  const model::MlaConfig mla = given.value_or(model::MlaConfig{});
  add("q_lora_rank", mla.q_lora_rank);
  add("kv_lora_rank", mla.kv_lora_rank);
  add("qk_nope_head_dim", mla.qk_nope_head_dim);
  add("qk_rope_head_dim", mla.qk_rope_head_dim);
  add("v_head_dim", mla.v_head_dim);
  add("interleaved", mla.interleaved);
}

void add_experts(const std::optional<model::MoeConfig>& given, Json& facts) {
  Facts add("config.moe.", facts);
  const model::MoeConfig moe = given.value_or(model::MoeConfig{});
  add("experts", moe.experts);
  add("experts_per_token", moe.experts_per_token);
  add("expert_width", moe.expert_width);
  add("shared_width", moe.shared_width);
  add("shared_gate", moe.shared_gate);
  add("normalise", moe.normalise);
  add("scale", moe.scale);
  add("groups", moe.groups);
  add("topk_groups", moe.topk_groups);
  add("layers", layer_kinds(moe.layers));
}

// Adds every field from which the layers are built. run_facts_test.cpp verifies that no field is
// missing: it changes each key of a config.json in turn.
void add_model(const model::ModelConfig& config, Json& facts) {
  Facts add("config.", facts);
  add("model_type", config.model_type);
  add("vocab_size", config.vocab_size);
  add("hidden_size", config.hidden_size);
  add("intermediate_size", config.intermediate_size);
  add("num_hidden_layers", config.num_hidden_layers);
  add("num_attention_heads", config.num_attention_heads);
  add("num_key_value_heads", config.num_key_value_heads);
  add("head_dim", config.head_dim);
  add("rms_norm_eps", config.rms_norm_eps);
  add("initializer_range", config.initializer_range);
  add("tie_word_embeddings", config.tie_word_embeddings);
  add("qkv_bias", config.qkv_bias);
  add("o_bias", config.o_bias);
  add("mlp_bias", config.mlp_bias);
  add("norm_bias", config.norm_bias);
  add("head_bias", config.head_bias);
  add("qk_norm", config.qk_norm);
  add("qk_norm_spans_heads", config.qk_norm_spans_heads);
  add("qk_norm_follows_rope", config.qk_norm_follows_rope);
  add("gated_mlp", config.gated_mlp);
  add("parallel_block", config.parallel_block);
  add("hidden_norms", config.hidden_norms);
  add("hidden_act", config.hidden_act);
  add("padding_id", config.padding_id);
  add_rope("config.rope.", config.rope, facts);
  add_rope("config.local_rope.", config.local_rope, facts);
  add("rotated_layers", layer_kinds(config.rotated_layers));
  add("rope_interleaved", config.rope_interleaved);
  add("query_scalar", config.query_scalar.value_or(0.0));
  add("scales_attention", config.scales_attention);
  add("scales_by_layer", config.scales_by_layer);
  add("attention_softcap", config.attention_softcap);
  add("alibi", config.alibi);
  add("logit_softcap", config.logit_softcap);
  add("logit_scale", config.logit_scale);
  add("embedding_scale", config.embedding_scale);
  add("residual_scale", config.residual_scale);
  add("attention_scale", config.attention_scale);
  add("qkv_limit", config.qkv_limit);
  add("activation_limit", config.activation_limit.value_or(0.0));
  add("activation_alpha", config.activation_alpha);
  add("sliding_window", config.sliding_window.value_or(0));
  add("window_first_layer", config.window_first_layer);
  add("window_layers", layer_kinds(config.window_layers));
  // max_position_embeddings changes the model only if positions are learned, because it is then a
  // parameter's size.
  if (!model::family_of(config).names.positions.empty()) {
    add("max_position_embeddings", config.max_position_embeddings);
  }
  add_latent(config.mla, facts);
  add_experts(config.moe, facts);
}

std::string shown(const Json& value) { return dump_json(value, -1); }

}  // namespace

Json run_facts(const config::Plan& plan, const model::ModelConfig& config,
               const data::BatchReader& reader) {
  Json facts = Json::object();
  add_model(config, facts);
  for (const config::FieldSpec& field : config::fields()) {
    if (field.section == "strategy" || part_of(field.name()) == Part::kNone) continue;
    const Json value = field.get(plan);
    const bool path = field.is_path != nullptr && !value.is_null();
    facts[field.name()] = path ? without_folders(value) : value;
  }
  // Adds max_steps if the schedule ends at max_steps, because another value then changes the
  // learning rates. A wsd schedule always ends at max_steps.
  const auto& scheduler = plan.scheduler;
  if ((scheduler.name == "cosine" || scheduler.name == "linear") && scheduler.decay_steps == 0) {
    facts["scheduler.decay_steps"] = plan.train.max_steps;
  }
  if (scheduler.name == "wsd") facts["scheduler.end"] = plan.train.max_steps;
  // Synthetic tokens need no fingerprint, because vocabulary and seed determine them.
  if (!plan.data.is_synthetic()) {
    facts["data.tokens"] = reader.tokens();
    facts["data.fingerprint"] = reader.fingerprint();
  }
  return facts;
}

std::string FactDifference::text() const {
  return cat(key, ": ", shown(there), " there, ", shown(here), " here");
}

std::vector<FactDifference> differences(const Json& there, const Json& here) {
  std::vector<FactDifference> found;
  for (const auto& [key, value] : here.items()) {
    const auto stored = there.find(key);
    if (stored == there.end() || *stored == value) continue;
    found.push_back({key, *stored, value, part_of(key) == Part::kBreaks});
  }
  return found;
}

}  // namespace am::train
