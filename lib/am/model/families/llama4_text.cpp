// Llama 4's text part: chunked attention in most layers, and routed experts beside a shared one in
// every `interleave_moe_layer_step`-th layer. Plans assume full attention in all layers.
#include "am/model/families/blocks.h"
#include "am/model/families/families.h"

namespace am::model {
namespace {

constexpr int64_t kDenseWidth = 16384;

// Reads which layers have experts: those in moe_layers or, without this key, every
// `interleave_moe_layer_step`-th layer.
void read_expert_layers(ConfigReader& reader, ModelConfig& config) {
  const int64_t step = reader.integer("interleave_moe_layer_step", 1, kMostLayers).value_or(1);
  std::vector<bool>& sparse = config.moe->layers;
  if (!reader.raw("moe_layers").is_null()) {
    sparse = read_layer_indices(reader, config, "moe_layers");
    return;
  }
  for (size_t i = 0; i < sparse.size(); ++i) {
    sparse[i] = (static_cast<int64_t>(i) + 1) % step == 0;
  }
}

// Reads the keys of Llama 4. intermediate_size is the width of a routed expert, and also of the
// shared expert.
void read_config(ConfigReader& reader, ModelConfig& config) {
  read_attention_bias(reader, config);
  config.rope_interleaved = true;
  read_moe(reader, config,
           {.experts = {"num_local_experts"},
            .default_experts = 16,
            .experts_per_token = {"num_experts_per_tok"},
            .default_experts_per_token = 1,
            .width = "intermediate_size",
            .default_width = 8192});
  read_jitter(reader, config);
  const int64_t dense = reader.integer("intermediate_size_mlp", 1, kMaxWidth).value_or(kDenseWidth);
  if (!config.moe.has_value()) return;
  read_expert_layers(reader, config);
  config.moe->shared_width = config.moe->expert_width;
  config.intermediate_size = dense;
}

LayerSpec describe_layer(const ModelConfig& config, int64_t layer) {
  const int64_t width = config.moe->expert_width;
  const int64_t hidden = config.hidden_size;
  LayerSpec spec = start_layer(config, layer);
  add_attention(config, spec);
  if (has_experts(config, layer)) {
    spec.router->score = RouterSpec::Score::kSigmoid;
    spec.modules.push_back(conv1d(
        stacked_experts(config, Role::kExpertGateUp, "feed_forward.experts", 2 * width, hidden)));
    spec.modules.back().leaf = "gate_up_proj";
    spec.modules.push_back(
        conv1d(stacked_experts(config, Role::kExpertDown, "feed_forward.experts", hidden, width)));
    spec.modules.back().leaf = "down_proj";
    add_router(config, spec, "feed_forward.router");
    add_shared_experts(config, spec, "feed_forward.shared_expert");
  } else {
    add_gated_mlp(config, spec, "feed_forward");
  }
  add_norms(config, spec, kLlamaNorms);
  return spec;
}

}  // namespace

const Family kLlama4Text = {
    .model_type = "llama4_text",
    .description = "Llama 4 decoder: chunked attention, routed experts beside a shared one",
    .layer_class = "transformers.models.llama4.modeling_llama4.Llama4TextDecoderLayer",
    .defaults = {.max_position_embeddings = 131072,
                 .key_value_heads = 8,
                 .head_dim = 128,
                 .norm_eps = 1e-5,
                 .rope_theta = 500000.0,
                 .vocab_size = 202048,
                 .hidden_size = 5120,
                 .intermediate_size = 8192,
                 .layers = 48,
                 .heads = 40},
    .runs = false,
    .read_config = read_config,
    .describe_layer = describe_layer,
};

}  // namespace am::model
