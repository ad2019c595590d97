// Functions for DeepSeek V2 and V3, and for families with latent attention (MLA) or with V3's
// experts: dense first layers, routed and shared experts.
#pragma once

#include <string_view>

#include "am/model/config_reader.h"
#include "am/model/families/blocks.h"
#include "am/model/spec.h"

namespace am::model {

// Default values of transformers' configuration classes that differ between families.
struct DeepseekDefaults {
  int64_t experts;            // number of routed experts; 0: the key is required
  int64_t experts_per_token;  // number of routed experts per token; 0: the key is required
  int64_t expert_width;
  int64_t shared_experts;
  int64_t dense_layers;
  int64_t groups;  // number of expert groups; 1: routing is not limited to groups
  int64_t topk_groups;
  double scale;                                      // factor of the routing weights
  std::string_view shared_key = "n_shared_experts";  // key for the number of shared experts
};
// Defaults of DeepSeek V3.
inline constexpr DeepseekDefaults kDeepseekV3Defaults = {.experts = 256,
                                                         .experts_per_token = 8,
                                                         .expert_width = 2048,
                                                         .shared_experts = 1,
                                                         .dense_layers = 3,
                                                         .groups = 8,
                                                         .topk_groups = 4,
                                                         .scale = 2.5};
// Default sizes of latent attention: the rank of the queries, the common rank of keys and values,
// the width of the part of a key that RoPE does not rotate, and the width of a value.
struct MlaDefaults {
  int64_t query_rank = 1536;
  int64_t key_rank = 512;
  int64_t plain_width = 128;
  int64_t value_width = 128;
};
// Reads attention_bias, and the sizes of latent attention into config.mla. Before the call,
// config.head_dim must be the rotated width of a head (qk_rope_head_dim). The function sets
// config.head_dim to the full width of a query or key head.
void read_latent_attention(ConfigReader& reader, ModelConfig& config,
                           const MlaDefaults& defaults = {});
// Reads the keys of routed and shared experts, their groups and the dense first layers into
// config.moe.
void read_deepseek_experts(ConfigReader& reader, ModelConfig& config,
                           const DeepseekDefaults& defaults);
// Reads the config keys that V2 and V3 have in common into config.mla, config.moe, the biases and
// config.head_dim.
void read_deepseek(ConfigReader& reader, ModelConfig& config, const DeepseekDefaults& defaults);
// Reads num_nextn_predict_layers. If the key is missing, its value is `fallback`.
void read_mtp_layers(ConfigReader& reader, ModelConfig& config, int64_t fallback = 1);

// Router of a layer. V2's router computes softmax scores. V3's router computes sigmoid scores,
// chooses groups by the sum of their two best scores, and adds 1e-20 to the sum of weights in
// normalisation. To balance the load, V3's router also has e_score_correction_bias, one number per
// expert. Checkpoints store this bias, and automesh counts it as a parameter.
enum class DeepseekRouter { kV2, kV3 };
// Names of the modules of V3's experts. `correction_leaf` is the name of the correction bias within
// the module `correction`.
struct V3ExpertNames {
  std::string_view router = "mlp.gate";
  std::string_view correction = "mlp.gate";
  std::string_view correction_leaf = "e_score_correction_bias";
  std::string_view experts = "mlp.experts";
  std::string_view shared = "mlp.shared_experts";
  GatedNames of_expert = {};
};
// Adds V3's router, its correction, and the routed and shared experts.
void add_v3_experts(const ModelConfig& config, LayerSpec& spec, const V3ExpertNames& names = {});
// Returns the description of a layer with latent attention. Its feed-forward is a dense MLP in the
// first layers, otherwise the router, the routed and the shared experts.
LayerSpec deepseek_layer(const ModelConfig& config, int64_t layer, DeepseekRouter router);
// Returns deepseek_layer() with V3's router.
LayerSpec deepseek_v3_layer(const ModelConfig& config, int64_t layer);
// Returns the description of a layer with Llama's attention and V3's feed-forward.
LayerSpec deepseek_v3_experts_layer(const ModelConfig& config, int64_t layer);

}  // namespace am::model
