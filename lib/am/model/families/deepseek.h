// Functions for DeepSeek V2 and V3, and for families with V3's experts: latent attention, dense
// first layers, routed and shared experts.
#pragma once

#include "am/model/config_reader.h"
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
  double scale;  // factor of the routing weights
};
// Reads the keys of routed and shared experts, their groups and the dense first layers into
// config.moe.
void read_deepseek_experts(ConfigReader& reader, ModelConfig& config,
                           const DeepseekDefaults& defaults);
// Reads the config keys that V2 and V3 have in common into config.mla, config.moe, the biases and
// config.head_dim.
void read_deepseek(ConfigReader& reader, ModelConfig& config, const DeepseekDefaults& defaults);
// Reads num_nextn_predict_layers, which is 1 if the key is missing.
void read_mtp_layers(ConfigReader& reader, ModelConfig& config);

// Router of a layer. V3's has sigmoid scores, chooses groups by their two best experts, adds 1e-20
// to the sum of weights in normalisation, and has e_score_correction_bias, one number per expert,
// which balances the load. This bias is stored in checkpoints and counted among the parameters, as
// on the hub.
enum class DeepseekRouter { kV2, kV3 };
// Returns the description of a layer with latent attention. Its feed-forward is a dense MLP in the
// first layers, otherwise the router, the routed and the shared experts.
LayerSpec deepseek_layer(const ModelConfig& config, int64_t layer, DeepseekRouter router);
// Returns the description of a layer with Llama's attention and V3's feed-forward.
LayerSpec deepseek_v3_experts_layer(const ModelConfig& config, int64_t layer);

}  // namespace am::model
