// ERNIE 4.5 MoE: ERNIE 4.5's attention, and experts that are chosen by softmax scores and a
// correction bias.
#include "am/model/families/blocks.h"
#include "am/model/families/families.h"

namespace am::model {
namespace {

constexpr int64_t kMaxLayer = int64_t{1} << 20;
constexpr int64_t kShared = 2;
constexpr double kMostNormMin = 1e-6;

// Reads which layers have experts: every `moe_layer_interval`-th layer of the model, but none
// before moe_layer_start_index or after moe_layer_end_index. An end index of -1 is the last layer.
void read_expert_layers(ConfigReader& reader, ModelConfig& config) {
  const int64_t interval = reader.integer("moe_layer_interval", 1, kMaxLayer).value_or(1);
  const int64_t first = reader.integer("moe_layer_start_index", 0, kMaxLayer).value_or(1);
  const int64_t end = reader.integer("moe_layer_end_index", -1, kMaxLayer).value_or(-1);
  const int64_t last = end == -1 ? config.num_hidden_layers - 1 : end;
  if (!config.moe.has_value()) return;
  for (size_t i = 0; i < config.moe->layers.size(); ++i) {
    const auto layer = static_cast<int64_t>(i);
    config.moe->layers[i] = (layer + 1) % interval == 0 && layer >= first && layer <= last;
  }
}

// Reads the keys of ERNIE 4.5 MoE. Normalisation divides by the sum of a token's routing weights,
// but at least by moe_norm_min. Values of moe_norm_min above kMostNormMin could have an effect, and
// are an error.
void read_config(ConfigReader& reader, ModelConfig& config) {
  const bool bias = reader.boolean("use_bias").value_or(false);
  config.qkv_bias = config.o_bias = config.mlp_bias = config.head_bias = bias;
  config.rope_interleaved = true;
  read_moe(reader, config,
           {.experts = {"moe_num_experts", "num_experts"},
            .default_experts = 64,
            .experts_per_token = {"moe_k", "num_experts_per_tok"},
            .default_experts_per_token = 6,
            .width = "moe_intermediate_size",
            .default_width = 1536});
  const int64_t shared = reader.integer("moe_num_shared_experts", 0, kMaxShared).value_or(kShared);
  reader.number("moe_norm_min", 0.0, kMostNormMin);
  read_expert_layers(reader, config);
  if (!config.moe.has_value()) return;
  config.moe->normalise = true;
  config.moe->shared_width = shared * config.moe->expert_width;
}

LayerSpec describe_layer(const ModelConfig& config, int64_t layer) {
  if (!has_experts(config, layer)) return llama_layer(config, layer);
  LayerSpec spec = start_layer(config, layer);
  add_attention(config, spec);
  add_router(config, spec, "mlp.gate");
  spec.modules.push_back(vector(Role::kRouterCorrection, "mlp.moe_statics",
                                "e_score_correction_bias", config.moe->experts, Init::kZeros));
  spec.modules.back().stacked = true;  // stored as one row: [1, experts]
  add_experts(config, spec, "mlp.experts");
  if (config.moe->shared_width > 0) add_shared_experts(config, spec, "mlp.shared_experts");
  add_norms(config, spec, kLlamaNorms);
  return spec;
}

}  // namespace

const Family kErnie45Moe = {
    .model_type = "ernie4_5_moe",
    .description = "ERNIE 4.5 MoE decoder: ERNIE 4.5's attention, routed and shared experts",
    .layer_class =
        "transformers.models.ernie4_5_moe.modeling_ernie4_5_moe.Ernie4_5_MoeDecoderLayer",
    .defaults = {.max_position_embeddings = 131072,
                 .key_value_heads = 4,
                 .norm_eps = 1e-5,
                 .rope_theta = 500000.0,
                 .tie_word_embeddings = true,
                 .pad_token_id = 0},
    .read_config = read_config,
    .describe_layer = describe_layer,
};

}  // namespace am::model
