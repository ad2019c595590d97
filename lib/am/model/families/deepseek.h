// Functions for both DeepSeek V2 and V3: latent attention, dense first layers, routed and shared
// experts.
#pragma once

#include "am/model/config_reader.h"
#include "am/model/spec.h"

namespace am::model {

// Default values of transformers' configuration classes that differ between DeepSeek V2 and V3.
struct DeepseekDefaults {
  int64_t experts;
  int64_t experts_per_token;  // number of routed experts per token; 0: the key is required
  int64_t expert_width;
  int64_t shared_experts;
  int64_t dense_layers;
  int64_t groups;  // number of expert groups; 1: routing is not limited to groups
  int64_t topk_groups;
  double scale;  // factor of the routing weights
};
// Reads the config keys that V2 and V3 have in common into config.mla, config.moe, the biases and
// config.head_dim.
void read_deepseek(ConfigReader& reader, ModelConfig& config, const DeepseekDefaults& defaults);
// Returns the description of a layer. If `correction_bias` is set, the router has V3's
// e_score_correction_bias, one number per expert, which balances the load. This bias is stored in
// checkpoints and counted among the parameters, as on the hub.
LayerSpec deepseek_layer(const ModelConfig& config, int64_t layer, bool correction_bias);

}  // namespace am::model
