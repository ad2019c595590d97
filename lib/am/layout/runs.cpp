#include "am/layout/runs.h"

#include <algorithm>
#include <array>
#include <variant>

#include "am/base/json.h"
#include "am/base/text.h"
#include "am/config/backend.h"
#include "am/model/family.h"
#include "am/model/spec.h"

namespace am::layout {
namespace {

using std::string_view_literals::operator""sv;

constexpr std::array kRopeTypes = {"default"sv, "linear"sv, "llama3"sv, "yarn"sv, "longrope"sv};

template <typename Names>
bool contains(const Names& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

template <typename Names>
std::string listed(const Names& names) {
  return join(std::vector<std::string>(names.begin(), names.end()), ", ");
}

// Collects unsupported features of a model, each with the config key that requests it.
class ModelLimits {
 public:
  explicit ModelLimits(const model::ModelConfig& config) : config_(config) {}

  void add(std::string_view key, std::string what, std::string help) {
    limits_.push_back(
        {find_json_key(config_.text, config_.file, key), std::move(what), std::move(help)});
  }
  std::vector<Limit> take() { return std::move(limits_); }

 private:
  const model::ModelConfig& config_;
  std::vector<Limit> limits_;
};

class PlanLimits {
 public:
  PlanLimits(const config::Plan& plan, const model::ModelConfig* model)
      : plan_(plan), model_(model) {}

  void add(bool asked, const std::string& key, const char* what, std::string help) {
    if (asked) limits_.push_back({plan_.span(key), what, std::move(help)});
  }
  std::vector<Limit> take() { return std::move(limits_); }
  const config::Plan& plan() const { return plan_; }
  // Whether the plan's model has experts; false if the model is unknown.
  bool has_experts() const { return model_ != nullptr && model_->moe.has_value(); }

 private:
  const config::Plan& plan_;
  const model::ModelConfig* model_;
  std::vector<Limit> limits_;
};

// Returns the config key that describes the rotary embedding; "model_type" if there is none.
std::string_view rope_key(const model::ModelConfig& config) {
  for (const std::string_view key : {"rope_scaling", "rope_parameters"}) {
    if (find_json_key(config.text, config.file, key).line > 0) return key;
  }
  return "model_type";
}

// Returns the config key that describes the biases of the feed-forward.
std::string_view mlp_bias_key(const model::ModelConfig& config) {
  constexpr std::string_view kOfAll = "use_bias";
  return find_json_key(config.text, config.file, kOfAll).line > 0 ? kOfAll : "mlp_bias";
}

void add_limits(const config::FSDP2Config& config, PlanLimits& limits) {
  limits.add(config.enable_async_tensor_parallel && !config::computes_on_host(config.backend),
             "strategy.enable_async_tensor_parallel", "asynchronous tensor parallelism on GPUs",
             "set it to false: matrix products and tensor-parallel collectives then run one after "
             "the other");
}

void add_limits(const config::MegatronFSDPConfig& config, PlanLimits& limits) {
  limits.add(config.nccl_ub && !config::runs_without_nccl(config.backend), "strategy.nccl_ub",
             "registering buffers with NCCL", "set it to false");
}

void add_limits(const config::DDPConfig&, PlanLimits&) {}

void add_limits(const config::MegatronConfig& config, PlanLimits& limits) {
  using config::ActivationCheckpointing;
  const int64_t etp = config.expert_tp(limits.plan().mesh.tp_size);
  limits.add(etp > 1 && limits.has_experts(), "strategy.etp_size", "tensor parallelism of experts",
             "etp_size = 1");
  const auto mode = config.activation_checkpointing;
  const bool named = !config.recompute_modules.empty();
  limits.add(mode != ActivationCheckpointing::kOff && mode != ActivationCheckpointing::kFull,
             named ? "strategy.recompute_modules" : "strategy.activation_checkpointing",
             "Megatron's recomputation of single modules",
             cat(named ? "remove recompute_modules, and set " : "",
                 "activation_checkpointing = \"full\" or false"));
  limits.add(mode == ActivationCheckpointing::kFull &&
                 (config.recompute_method == "block" || config.recompute_num_layers > 1),
             "strategy.recompute_num_layers", "recomputation of some layers, or of groups of them",
             "recompute_method = \"uniform\" with recompute_num_layers = 1");
  limits.add(config.activation_offload_fraction > 0.0, "strategy.activation_offload_fraction",
             "offloading of activations", "activation_offload_fraction = 0");
}

}  // namespace

std::vector<Limit> limits_of_model(const model::ModelConfig& config) {
  ModelLimits limits(config);
  std::vector<std::string> running;
  for (const model::Family* family : model::families()) {
    if (family->runs) running.emplace_back(family->model_type);
  }
  const std::string families = cat("model types that am-run runs: ", listed(running));
  if (!contains(running, config.model_type)) {
    limits.add("model_type", cat("model_type \"", config.model_type, "\""), families);
    return limits.take();
  }
  if (!config.wrapped_in.empty()) {
    limits.add("model_type", cat("the text part of a ", config.wrapped_in, " model"), families);
    return limits.take();
  }
  const model::DecoderSpec spec = model::describe(config);
  for (const model::RopeConfig& rope : spec.ropes) {
    if (!contains(kRopeTypes, rope.type)) {
      limits.add(rope_key(config), cat("a rotary embedding of type \"", rope.type, "\""),
                 cat("types that am-run runs: ", listed(kRopeTypes)));
    }
  }
  if (config.rounds_alibi) {
    limits.add("alibi", "position biases of attention scores (ALiBi) in bfloat16",
               "am-run supports only alibi = false, which is a different model: it has rotary "
               "embeddings and needs other weights");
  }
  if (config.bidirectional) {
    limits.add("use_bidirectional_attention", "non-causal attention",
               "am-run supports only use_bidirectional_attention = false");
  }
  if (config.qkv_limit) {
    limits.add("clip_qkv", cat("clip_qkv = ", *config.qkv_limit),
               "am-run supports only clip_qkv = null");
  }
  if (config.moe && config.mlp_bias) {
    const std::string_view key = mlp_bias_key(config);
    limits.add(key, "experts with biases", cat("am-run supports only ", key, " = false"));
  }
  if (config.moe && config.moe->jitter > 0.0) {
    limits.add("router_jitter_noise", cat("router_jitter_noise = ", config.moe->jitter),
               "am-run supports only router_jitter_noise = 0.0");
  }
  if (spec.layer(0).activation == model::Activation::kOther) {
    const std::string_view key = model::family_of(config).keys.activation;
    limits.add(key, cat(key, " \"", config.hidden_act, "\""),
               "am-run supports only silu, gelu, gelu_new, gelu_pytorch_tanh, relu and relu2");
  }
  return limits.take();
}

std::vector<Limit> limits_of_plan(const config::Plan& plan, const model::ModelConfig* model) {
  PlanLimits limits(plan, model);
  std::visit([&](const auto& config) { add_limits(config, limits); }, plan.strategy);
  const bool megatron = std::holds_alternative<config::MegatronConfig>(plan.strategy);
  limits.add(
      config::uses_transformer_engine(plan.strategy), "strategy.fp8",
      "a recipe of Transformer Engine",
      megatron ? "fp8 = \"none\"" : "fp8 = \"tensorwise\" or \"rowwise\", the recipes of torchao");
  return limits.take();
}

std::vector<Limit> limits_of(const config::Plan& plan, const model::ModelConfig& config) {
  std::vector<Limit> all = limits_of_model(config);
  const std::vector<Limit> of_plan = limits_of_plan(plan, &config);
  all.insert(all.end(), of_plan.begin(), of_plan.end());
  return all;
}

void refuse(const std::vector<Limit>& limits, std::string_view subject, Diagnostics& found) {
  for (const Limit& limit : limits) {
    found.error("runtime.unsupported", limit.where,
                cat(limit.what, " ", subject, ", but this version of am-run cannot run it"),
                limit.help);
  }
}

void check_runnable(const model::ModelConfig& config, Diagnostics& found) {
  refuse(limits_of_model(config), "can be planned", found);
}

}  // namespace am::layout
