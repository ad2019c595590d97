// Flint: norms over query and key heads, attention sinks, a sliding window in most layers, and
// experts with one shared expert after the first layers.
#include <utility>

#include "am/model/families/blocks.h"
#include "am/model/families/families.h"

namespace am::model {
namespace {

constexpr int64_t kWindow = 513;
constexpr int64_t kDenseLayers = 2;

// Reads the layers with the sliding window. Without layer_types, these are all layers except layers
// 0, 1, 5, 9, 13, ... and the last one.
void read_windows(ConfigReader& reader, ModelConfig& config) {
  read_window(reader, config, kWindow);
  if (!reader.raw("layer_types").is_null()) return read_window_layers(reader, config, 1);
  std::vector<bool> windowed;
  for (int64_t layer = 0; layer < config.num_hidden_layers; ++layer) {
    windowed.push_back(layer >= 2 && layer % 4 != 1 && layer != config.num_hidden_layers - 1);
  }
  set_window_layers(config, std::move(windowed));
}

// Reads the keys of Flint. If mlp_only_layers is null or missing, the first two layers are dense.
void read_config(ConfigReader& reader, ModelConfig& config) {
  read_attention_bias(reader, config);
  config.qk_norm = true;
  read_windows(reader, config);
  read_moe(reader, config,
           {.experts = {"num_experts"},
            .default_experts = 256,
            .experts_per_token = {"num_experts_per_tok"},
            .default_experts_per_token = 6,
            .width = "moe_intermediate_size",
            .default_width = 512},
           /*may_be_dense=*/true);
  read_normalisation(reader, config, true);
  read_sparse_layers(reader, config);
  const int64_t shared =
      reader.integer("shared_expert_intermediate_size", 1, kMaxWidth).value_or(1024);
  if (!config.moe.has_value()) return;
  config.moe->shared_width = shared;
  if (!reader.raw("mlp_only_layers").is_null()) return;
  std::vector<bool>& sparse = config.moe->layers;
  for (size_t i = 0; i < sparse.size() && i < kDenseLayers; ++i) sparse[i] = false;
}

LayerSpec describe_layer(const ModelConfig& config, int64_t layer) {
  LayerSpec spec = start_layer(config, layer);
  spec.attention.sinks = true;
  spec.modules.push_back(vector(Role::kSinks, "self_attn", "softmax_offset",
                                config.num_attention_heads, Init::kNormal));
  add_attention(config, spec);
  if (has_experts(config, layer)) {
    add_router(config, spec, "mlp.gate");
    add_experts(config, spec, "mlp.experts");
    add_shared_experts(config, spec, "mlp.shared_expert");
  } else {
    add_gated_mlp(config, spec);
  }
  add_norms(config, spec, kLlamaNorms);
  return spec;
}

}  // namespace

const Family kFlint = {
    .model_type = "flint",
    .description = "Flint decoder: sinks and sliding windows, routed and shared experts",
    .layer_class = "transformers.models.flint.modeling_flint.FlintDecoderLayer",
    .defaults = {.max_position_embeddings = 262144, .key_value_heads = 4, .head_dim = 128},
    .runs = false,
    .read_config = read_config,
    .describe_layer = describe_layer,
};

}  // namespace am::model
