// What DeepSeek V2 and V3 share: latent attention, dense first layers, routed and shared experts.
#pragma once

#include "am/model/config_reader.h"
#include "am/model/spec.h"

namespace am::model {

// The class defaults that differ between the two.
struct DeepseekDefaults {
  int64_t experts;
  int64_t experts_per_token;  // 0: the key is required
  int64_t expert_width;
  int64_t shared_experts;
  int64_t dense_layers;
  int64_t groups;  // of experts; 1: a token takes them out of all
  int64_t taken_groups;
  double scale;  // of the taken experts' weights
};
// config.mla, config.moe, biases and head_dim.
void read_deepseek(ConfigReader& reader, ModelConfig& config, const DeepseekDefaults& defaults);
// `correction_bias`: the router has V3's e_score_correction_bias, a number per expert that balances
// their load. It is in the checkpoint and counts among the parameters, as the hub counts.
LayerSpec deepseek_layer(const ModelConfig& config, int64_t layer, bool correction_bias);

}  // namespace am::model
