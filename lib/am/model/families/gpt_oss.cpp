// gpt-oss: attention with sinks, a sliding window in every second layer, and experts stored as one
// tensor per projection.
#include "am/model/families/blocks.h"
#include "am/model/families/families.h"

namespace am::model {
namespace {

constexpr int64_t kDefaultWindow = 128;
constexpr double kDefaultAlpha = 1.702;
constexpr double kDefaultLimit = 7.0;

// Returns the rotary embedding, with the given theta, that applies if the config has neither
// rope_scaling nor rope_parameters.
RopeConfig default_rope(double theta) {
  RopeConfig rope;
  rope.type = "yarn";
  rope.theta = theta;
  rope.factor = 32.0;
  rope.original_max_position_embeddings = 4096;
  rope.truncate = false;
  return rope;
}

// Reads the keys of gpt-oss. intermediate_size is the width of an expert. The router and the
// experts always have biases, attention's projections by default.
void read_config(ConfigReader& reader, ModelConfig& config) {
  read_attention_bias(reader, config, /*fallback=*/true);
  const bool says_rope =
      !reader.raw("rope_scaling").is_null() || !reader.raw("rope_parameters").is_null();
  if (!says_rope) config.rope = default_rope(config.rope.theta);
  config.activation_limit = read_switchable(reader, "swiglu_limit", kDefaultLimit);
  config.activation_alpha = reader.number("swiglu_alpha", 0.0, 1e9).value_or(kDefaultAlpha);
  read_window(reader, config, kDefaultWindow);
  read_window_layers(reader, config, 2);
  read_moe(reader, config,
           {.experts = {"num_local_experts", "num_experts"},
            .default_experts = 128,
            .experts_per_token = {"num_experts_per_tok", "experts_per_token"},
            .default_experts_per_token = 4,
            .width = "intermediate_size",
            .default_width = 2880});
}

// Returns a module with two tensors: the matrices of all experts, [experts, in, out], and their
// biases, [experts, out].
ModuleSpec stacked(Role role, std::string_view leaf, int64_t out, int64_t in, int64_t experts) {
  ModuleSpec module = matrix(role, "mlp.experts", out, in, /*bias=*/true);
  module.leaf = leaf;
  module.in_out = true;
  module.copies = experts;
  module.stacked = true;
  return module;
}

LayerSpec describe_layer(const ModelConfig& config, int64_t layer) {
  const int64_t experts = config.moe->experts;
  const int64_t width = config.moe->expert_width;
  const int64_t hidden = config.hidden_size;
  LayerSpec spec = start_layer(config, layer);
  spec.activation = Activation::kClampedSilu;
  spec.activation_alpha = config.activation_alpha;
  spec.activation_limit = config.activation_limit.value_or(kDefaultLimit);
  spec.attention.sinks = true;
  spec.router->score = RouterSpec::Score::kSoftmaxOfTaken;
  spec.modules.push_back(
      vector(Role::kSinks, "self_attn", "sinks", config.num_attention_heads, Init::kNormal));
  add_attention(config, spec);
  add_router(config, spec, "mlp.router", /*bias=*/true);
  spec.modules.push_back(stacked(Role::kExpertGateUp, "gate_up_proj", 2 * width, hidden, experts));
  spec.modules.push_back(stacked(Role::kExpertDown, "down_proj", hidden, width, experts));
  add_norms(config, spec, kLlamaNorms);
  return spec;
}

}  // namespace

const Family kGptOss = {
    .model_type = "gpt_oss",
    .description =
        "gpt-oss decoder: attention sinks, a sliding window in every second layer, experts",
    .layer_class = "transformers.models.gpt_oss.modeling_gpt_oss.GptOssDecoderLayer",
    .defaults = {.max_position_embeddings = 131072,
                 .key_value_heads = 8,
                 .head_dim = 64,
                 .norm_eps = 1e-5,
                 .rope_theta = 150000.0},
    .norm = NormKind::kRmsWide,
    .read_config = read_config,
    .describe_layer = describe_layer,
};

}  // namespace am::model
