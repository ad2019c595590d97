// JetMoE: experts in the feed-forward, and attention whose query and output matrices are experts
// too, so that a token has the query heads of each expert that it takes.
#include "am/base/text.h"
#include "am/model/families/blocks.h"
#include "am/model/families/families.h"
#include "am/model/families/granite.h"
#include "am/model/families/mixers.h"

namespace am::model {
namespace {

void read_config(ConfigReader& reader, ModelConfig& config) {
  config.num_key_value_heads =
      reader.integer("num_key_value_heads", 1, kMaxMixerHeads).value_or(16);
  if (config.num_key_value_heads * config.head_dim > kMaxMixerSize) {
    reader.error("model.value", "num_key_value_heads",
                 cat("num_key_value_heads * kv_channels = ",
                     config.num_key_value_heads * config.head_dim, " is out of range"),
                 cat("legal: at most ", kMaxMixerSize));
  }
  read_moe(reader, config,
           {.experts = {"num_local_experts"},
            .default_experts = 8,
            .experts_per_token = {"num_experts_per_tok"},
            .default_experts_per_token = 2,
            .width = "intermediate_size",
            .default_width = 5632});
  if (!config.moe.has_value()) return;
  config.num_attention_heads = config.num_key_value_heads * config.moe->experts_per_token;
}

// Adds attention with routed queries and outputs, as modules of role kOther, which am-run does not
// support. One matrix computes keys and values.
void add_routed_attention(const ModelConfig& config, LayerSpec& spec) {
  const int64_t hidden = config.hidden_size;
  const int64_t width = config.num_key_value_heads * config.head_dim;
  const auto routed = [&](std::string_view name, int64_t out, int64_t in) {
    spec.modules.push_back(stacked_experts(config, Role::kOther, name, out, in));
    spec.modules.back().kind = ModuleKind::kExpert;
  };
  spec.modules.push_back(other_vector("self_attention.experts", hidden, "bias"));
  routed("self_attention.experts.input_linear", width, hidden);
  routed("self_attention.experts.output_linear", hidden, width);
  spec.modules.push_back(other("self_attention.experts.router.layer", config.moe->experts, hidden));
  spec.modules.push_back(other("self_attention.kv_proj", 2 * width, hidden));
}

LayerSpec describe_layer(const ModelConfig& config, int64_t layer) {
  LayerSpec spec = start_mixer_layer(config, layer);
  spec.modules.push_back(other_vector("mlp", config.hidden_size, "bias"));
  add_granite_experts(
      config, spec,
      {.router = "mlp.router.layer", .gate_up = "mlp.input_linear", .down = "mlp.output_linear"});
  add_norms(config, spec, kLlamaNorms);
  add_routed_attention(config, spec);
  return spec;
}

}  // namespace

const Family kJetmoe = {
    .model_type = "jetmoe",
    .description = "JetMoE decoder: routed experts in attention and in the feed-forward",
    .layer_class = "transformers.models.jetmoe.modeling_jetmoe.JetMoeDecoderLayer",
    .keys = {.heads = "",
             .key_value_heads = "",
             .head_dim = "kv_channels",
             .activation = "activation_function"},
    .defaults = {.max_position_embeddings = 4096,
                 .head_dim = 128,
                 .initializer_range = 0.01,
                 .tie_word_embeddings = true},
    .runs = false,
    .read_config = read_config,
    .describe_layer = describe_layer,
};

}  // namespace am::model
