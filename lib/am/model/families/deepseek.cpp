#include "am/model/families/deepseek.h"

#include <algorithm>

#include "am/model/families/blocks.h"

namespace am::model {
namespace {

constexpr int64_t kMaxRank = int64_t{1} << 20;
constexpr int64_t kMaxHeadPart = int64_t{1} << 14;
constexpr int64_t kMaxGroups = int64_t{1} << 14;
constexpr int64_t kMaxMtpLayers = 100;
constexpr double kNormaliseEps = 1e-20;

// Returns the value of the key. Returns 0 if the key is null, which disables the feature that the
// key configures, and `fallback` if the key is missing.
int64_t read_nullable(ConfigReader& reader, std::string_view key, int64_t high, int64_t fallback) {
  if (!reader.has(key)) return fallback;
  return reader.integer(key, 1, high).value_or(0);
}

// Reads the sizes of latent attention. `rotated` is the width of the part of each head that RoPE
// rotates.
MlaConfig read_mla(ConfigReader& reader, int64_t rotated, const MlaDefaults& defaults) {
  MlaConfig mla;
  mla.qk_rope_head_dim = rotated;
  mla.q_lora_rank = read_nullable(reader, "q_lora_rank", kMaxRank, defaults.query_rank);
  mla.kv_lora_rank = reader.integer("kv_lora_rank", 1, kMaxRank).value_or(defaults.key_rank);
  mla.qk_nope_head_dim =
      reader.integer("qk_nope_head_dim", 1, kMaxHeadPart).value_or(defaults.plain_width);
  mla.v_head_dim = reader.integer("v_head_dim", 1, kMaxHeadPart).value_or(defaults.value_width);
  if (mla.qk_rope_head_dim % 2 != 0) {
    reader.error("model.heads", "qk_rope_head_dim",
                 "the rotary embedding rotates pairs of values, but qk_rope_head_dim is odd",
                 "give an even number");
  }
  return mla;
}

void add_feed_forward(const ModelConfig& config, int64_t layer, DeepseekRouter router,
                      LayerSpec& spec) {
  if (!has_experts(config, layer)) {
    add_gated_mlp(config, spec);
    return;
  }
  if (router == DeepseekRouter::kV3) {
    add_v3_experts(config, spec);
    return;
  }
  add_router(config, spec, "mlp.gate");
  add_experts(config, spec, "mlp.experts");
  if (config.moe->shared_width > 0) add_shared_experts(config, spec, "mlp.shared_experts");
}

}  // namespace

void add_v3_experts(const ModelConfig& config, LayerSpec& spec, const V3ExpertNames& names) {
  add_router(config, spec, names.router);
  spec.modules.push_back(vector(Role::kRouterCorrection, names.correction, names.correction_leaf,
                                config.moe->experts, Init::kZeros));
  spec.router->score = RouterSpec::Score::kSigmoid;
  spec.router->group_by_two_best = true;
  spec.router->normalise_eps = kNormaliseEps;
  add_experts(config, spec, names.experts, names.of_expert);
  if (config.moe->shared_width > 0) add_shared_experts(config, spec, names.shared);
}

void read_deepseek_experts(ConfigReader& reader, ModelConfig& config,
                           const DeepseekDefaults& defaults) {
  read_moe(reader, config,
           {.experts = {"n_routed_experts", "num_local_experts", "num_experts"},
            .default_experts = defaults.experts,
            .experts_per_token = {"num_experts_per_tok"},
            .default_experts_per_token = defaults.experts_per_token,
            .width = "moe_intermediate_size",
            .default_width = defaults.expert_width});
  const int64_t shared =
      read_nullable(reader, defaults.shared_key, kMaxShared, defaults.shared_experts);
  const int64_t dense =
      reader.integer("first_k_dense_replace", 0, int64_t{1} << 20).value_or(defaults.dense_layers);
  const int64_t groups = read_nullable(reader, "n_group", kMaxGroups, defaults.groups);
  const int64_t taken = read_nullable(reader, "topk_group", kMaxGroups, defaults.topk_groups);
  const double scale =
      read_switchable(reader, "routed_scaling_factor", defaults.scale).value_or(1.0);
  if (!config.moe.has_value()) return;
  config.moe->groups = std::max<int64_t>(groups, 1);
  config.moe->topk_groups = std::max<int64_t>(taken, 1);
  config.moe->scale = scale;
  config.moe->shared_width = shared * config.moe->expert_width;
  set_dense_layers(config, dense);
}

void read_latent_attention(ConfigReader& reader, ModelConfig& config, const MlaDefaults& defaults) {
  read_attention_bias(reader, config);
  config.mla = read_mla(reader, config.head_dim, defaults);
  config.head_dim = config.mla->qk_head_dim();
}

void read_deepseek(ConfigReader& reader, ModelConfig& config, const DeepseekDefaults& defaults) {
  read_latent_attention(reader, config);
  read_deepseek_experts(reader, config, defaults);
}

void read_mtp_layers(ConfigReader& reader, ModelConfig& config, int64_t fallback) {
  config.mtp_layers =
      reader.integer("num_nextn_predict_layers", 0, kMaxMtpLayers).value_or(fallback);
}

LayerSpec deepseek_layer(const ModelConfig& config, int64_t layer, DeepseekRouter router) {
  LayerSpec spec = start_layer(config, layer);
  add_latent_attention(config, spec);
  add_feed_forward(config, layer, router, spec);
  add_norms(config, spec, kLlamaNorms);
  return spec;
}

LayerSpec deepseek_v3_layer(const ModelConfig& config, int64_t layer) {
  return deepseek_layer(config, layer, DeepseekRouter::kV3);
}

LayerSpec deepseek_v3_experts_layer(const ModelConfig& config, int64_t layer) {
  LayerSpec spec = start_layer(config, layer);
  add_attention(config, spec);
  add_feed_forward(config, layer, DeepseekRouter::kV3, spec);
  add_norms(config, spec, kLlamaNorms);
  return spec;
}

}  // namespace am::model
