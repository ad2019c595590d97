// Granite with attention sinks and a sliding window in three of four layers. granite_swa is dense,
// granitemoe_swa has experts.
#include <utility>

#include "am/model/families/blocks.h"
#include "am/model/families/families.h"
#include "am/model/families/granite.h"

namespace am::model {
namespace {

constexpr int64_t kWindow = 128;
constexpr int64_t kPattern = 4;

// Reads the keys of attention and Granite's factors. Without layer_types, layers 0, 4, 8, ... have
// full attention.
void read_attention(ConfigReader& reader, ModelConfig& config) {
  read_attention_bias(reader, config);
  read_granite_factors(reader, config);
  read_window(reader, config, kWindow);
  if (!reader.raw("layer_types").is_null()) {
    read_window_layers(reader, config, kPattern);
    return;
  }
  std::vector<bool> windowed;
  for (int64_t layer = 0; layer < config.num_hidden_layers; ++layer) {
    windowed.push_back(layer % kPattern != 0);
  }
  set_window_layers(config, std::move(windowed));
}

void read_config(ConfigReader& reader, ModelConfig& config) {
  read_attention(reader, config);
  config.mlp_bias = reader.boolean("mlp_bias").value_or(false);
}

void read_moe_config(ConfigReader& reader, ModelConfig& config) {
  read_attention(reader, config);
  read_granite_experts(reader, config);
}

LayerSpec attention_layer(const ModelConfig& config, int64_t layer) {
  LayerSpec spec = start_layer(config, layer);
  spec.attention.sinks = true;
  spec.modules.push_back(
      vector(Role::kSinks, "self_attn", "sinks", config.num_attention_heads, Init::kNormal));
  add_attention(config, spec);
  return spec;
}

LayerSpec describe_layer(const ModelConfig& config, int64_t layer) {
  LayerSpec spec = attention_layer(config, layer);
  add_gated_mlp(config, spec);
  add_norms(config, spec, kLlamaNorms);
  return spec;
}

LayerSpec describe_moe_layer(const ModelConfig& config, int64_t layer) {
  LayerSpec spec = attention_layer(config, layer);
  add_norms(config, spec, kLlamaNorms);
  add_granite_experts(config, spec,
                      {.router = "block_sparse_moe.router",
                       .leaf_gate_up = "gate_up_proj",
                       .gate_up = "block_sparse_moe.experts",
                       .leaf_down = "down_proj",
                       .down = "block_sparse_moe.experts"});
  return spec;
}

}  // namespace

const Family kGraniteSwa = {
    .model_type = "granite_swa",
    .description = "Granite decoder: attention sinks, a sliding window in most layers",
    .layer_class = "transformers.models.granite_swa.modeling_granite_swa.GraniteSWADecoderLayer",
    .defaults = {.max_position_embeddings = 8192,
                 .key_value_heads = 4,
                 .norm_eps = 1e-5,
                 .tie_word_embeddings = true},
    .runs = false,
    .read_config = read_config,
    .describe_layer = describe_layer,
};

const Family kGraniteMoeSwa = {
    .model_type = "granitemoe_swa",
    .description = "Granite MoE decoder: attention sinks, a sliding window in most layers",
    .layer_class =
        "transformers.models.granitemoe_swa.modeling_granitemoe_swa.GraniteMoeSWADecoderLayer",
    .defaults = {.max_position_embeddings = 2048},
    .runs = false,
    .read_config = read_moe_config,
    .describe_layer = describe_moe_layer,
};

}  // namespace am::model
