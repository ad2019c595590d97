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
// Adds the dense MLP of one of the first layers, or the router, the routed and the shared experts.
// If `correction_bias` is set, the router has V3's e_score_correction_bias, one number per expert,
// which balances the load. This bias is stored in checkpoints and counted among the parameters, as
// on the hub.
void add_deepseek_feed_forward(const ModelConfig& config, int64_t layer, LayerSpec& spec,
                               bool correction_bias);
// Returns the description of a layer with latent attention.
LayerSpec deepseek_layer(const ModelConfig& config, int64_t layer, bool correction_bias);
// Sets V3's routing in a layer with experts: sigmoid scores, groups chosen by their two best
// experts, and 1e-20 added to the sum of weights in normalisation.
void set_sigmoid_routing(LayerSpec& spec);

}  // namespace am::model
