// Cohere2 MoE: Command A's parallel attention and MLP, with routed and shared experts in most
// layers.
#include <utility>

#include "am/model/families/blocks.h"
#include "am/model/families/families.h"

namespace am::model {
namespace {

constexpr int64_t kWindow = 4096;
constexpr int64_t kPattern = 4;
constexpr double kLogitScale = 0.0625;

// Reads which layers have the sliding window. Without layer_types, every n-th of the dense first
// layers and every m-th of the later layers has full attention; all others have the window. n is
// prefix_dense_sliding_window_pattern, and m is sliding_window_pattern.
void read_windows(ConfigReader& reader, ModelConfig& config, int64_t dense) {
  read_window(reader, config, kWindow);
  const int64_t first =
      reader.integer("prefix_dense_sliding_window_pattern", 1, kMostLayers).value_or(1);
  const int64_t rest = reader.integer("sliding_window_pattern", 1, kMostLayers).value_or(kPattern);
  if (!reader.raw("layer_types").is_null()) {
    read_window_layers(reader, config, rest);
    return;
  }
  std::vector<bool> windowed;
  for (int64_t layer = 0; layer < config.num_hidden_layers; ++layer) {
    windowed.push_back(layer < dense ? (layer + 1) % first != 0 : (layer - dense + 1) % rest != 0);
  }
  set_window_layers(config, std::move(windowed));
}

// Reads the keys of Cohere2 MoE. intermediate_size is the width of an expert.
// prefix_dense_intermediate_size is the MLP's width in the dense first layers, and replaces
// config.intermediate_size.
void read_config(ConfigReader& reader, ModelConfig& config) {
  read_attention_bias(reader, config);
  config.parallel_block = true;
  config.hidden_norms = 1;
  config.rope_interleaved = true;
  config.logit_scale = read_switchable(reader, "logit_scale", kLogitScale).value_or(1.0);
  const int64_t dense = reader.integer("first_k_dense_replace", 0, kMostLayers).value_or(0);
  read_windows(reader, config, dense);
  rotate_windowed_layers(config);
  read_moe(reader, config,
           {.experts = {"num_experts"},
            .default_experts = 8,
            .experts_per_token = {"num_experts_per_tok"},
            .default_experts_per_token = 2,
            .width = "intermediate_size",
            .default_width = 22528});
  read_mlp_layer_types(reader, config, dense);
  read_normalisation(reader, config, true);
  const int64_t shared = reader.integer("num_shared_experts", 0, kMaxShared).value_or(0);
  const auto width = reader.integer("prefix_dense_intermediate_size", 1, kMaxWidth);
  if (!config.moe.has_value()) return;
  config.moe->shared_width = shared * config.moe->expert_width;
  config.intermediate_size = width.value_or(config.intermediate_size);
}

LayerSpec describe_layer(const ModelConfig& config, int64_t layer) {
  constexpr std::array<NamedNorm, 1> kNorms = {{{Role::kInputNorm, "input_layernorm"}}};
  if (!has_experts(config, layer)) return parallel_layer(config, layer);
  LayerSpec spec = start_layer(config, layer);
  spec.residual = Residual::kParallelOneNorm;
  add_attention(config, spec);
  add_router(config, spec, "mlp.gate");
  add_experts(config, spec, "mlp.experts");
  if (config.moe->shared_width > 0) add_shared_experts(config, spec, "mlp.shared_experts");
  add_norms(config, spec, kNorms);
  return spec;
}

}  // namespace

const Family kCohere2Moe = {
    .model_type = "cohere2_moe",
    .description = "Cohere2 MoE decoder: Command A's with routed and shared experts",
    .layer_class = "transformers.models.cohere2_moe.modeling_cohere2_moe.Cohere2MoeDecoderLayer",
    .keys = {.norm_eps = "layer_norm_eps"},
    .defaults = {.max_position_embeddings = 8192,
                 .head_dim = 128,
                 .norm_eps = 1e-5,
                 .tie_word_embeddings = true,
                 .pad_token_id = 0},
    .runs = false,
    .norm = NormKind::kLayer,
    .read_config = read_config,
    .describe_layer = describe_layer,
};

}  // namespace am::model
