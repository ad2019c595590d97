// Qwen2-MoE (Qwen1.5-MoE, Qwen2-57B-A14B): Qwen2 with experts, and a shared expert with a scalar
// gate.
#include "am/model/families/blocks.h"
#include "am/model/families/families.h"

namespace am::model {
namespace {

constexpr int64_t kSharedWidth = 5632;
constexpr int64_t kDefaultWindow = 4096;
constexpr int64_t kMaxWindowLayers = 28;

// Reads the sliding window, and which layers have the window. Without layer_types, every second of
// the first `max_window_layers` layers has the window, beginning with layer 0.
void read_moe_window(ConfigReader& reader, ModelConfig& config) {
  if (!reader.boolean("use_sliding_window").value_or(false)) return;
  read_window(reader, config, kDefaultWindow);
  const int64_t end =
      reader.integer("max_window_layers", 0, int64_t{1} << 20).value_or(kMaxWindowLayers);
  if (!reader.raw("layer_types").is_null()) {
    read_window_layers(reader, config, 1);
    return;
  }
  std::vector<bool> windowed;
  for (int64_t layer = 0; layer < config.num_hidden_layers; ++layer) {
    windowed.push_back(layer % 2 == 0 && layer < end);
  }
  set_window_layers(config, std::move(windowed));
}

void read_config(ConfigReader& reader, ModelConfig& config) {
  config.qkv_bias = reader.boolean("qkv_bias").value_or(true);
  read_moe_window(reader, config);
  read_moe(reader, config,
           {.experts = {"num_experts"},
            .default_experts = 60,
            .experts_per_token = {"num_experts_per_tok"},
            .default_experts_per_token = 4,
            .width = "moe_intermediate_size",
            .default_width = 1408},
           /*may_be_dense=*/true);
  const int64_t shared =
      reader.integer("shared_expert_intermediate_size", 1, int64_t{1} << 22).value_or(kSharedWidth);
  if (config.moe.has_value()) {
    config.moe->shared_width = shared;
    config.moe->shared_gate = true;
  }
  read_normalisation(reader, config, false);
  read_sparse_layers(reader, config);
}

LayerSpec describe_layer(const ModelConfig& config, int64_t layer) {
  if (!has_experts(config, layer)) return llama_layer(config, layer);
  LayerSpec spec = start_layer(config, layer);
  add_attention(config, spec);
  add_router(config, spec, "mlp.gate");
  add_experts(config, spec, "mlp.experts");
  add_shared_experts(config, spec, "mlp.shared_expert");
  spec.modules.push_back(
      matrix(Role::kSharedWeigher, "mlp.shared_expert_gate", 1, config.hidden_size));
  add_norms(config, spec, kLlamaNorms);
  return spec;
}

}  // namespace

const Family kQwen2Moe = {
    .model_type = "qwen2_moe",
    .description = "Qwen2-MoE decoder: Qwen2's with routed experts and a gated shared one",
    .layer_class = "transformers.models.qwen2_moe.modeling_qwen2_moe.Qwen2MoeDecoderLayer",
    .defaults = {.max_position_embeddings = 32768, .key_value_heads = 16},
    .read_config = read_config,
    .describe_layer = describe_layer,
};

}  // namespace am::model
