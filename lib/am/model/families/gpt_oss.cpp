// gpt-oss: attention with sinks and a window in every second layer, and experts that are one
// tensor.
#include "am/model/families/blocks.h"
#include "am/model/families/families.h"
#include "am/model/families/tp_rows.h"

namespace am::model {
namespace {

constexpr int64_t kDefaultWindow = 128;

// The experts' width is intermediate_size. Every projection and every expert has a bias.
void read_config(ConfigReader& reader, ModelConfig& config) {
  read_attention_bias(reader, config, /*fallback=*/true);
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

void add_layer(const ModelConfig& config, int64_t /*layer*/, InventoryBuilder& builder) {
  const int64_t experts = config.moe->experts;
  const int64_t width = config.moe->expert_width;
  const int64_t hidden = config.hidden_size;
  const auto fused = [&](std::string_view leaf, Shape shape, Init init) {
    builder.bare("mlp.experts", leaf, std::move(shape), ModuleKind::kExpert, init);
  };
  builder.bare("self_attn", "sinks", {config.num_attention_heads}, ModuleKind::kHeadVector,
               Init::kNormal);
  add_attention(config, builder);
  builder.router("mlp.router", experts, hidden, true);
  fused("gate_up_proj", {experts, hidden, 2 * width}, Init::kNormal);
  fused("gate_up_proj_bias", {experts, 2 * width}, Init::kZeros);
  fused("down_proj", {experts, width, hidden}, Init::kNormal);
  fused("down_proj_bias", {experts, hidden}, Init::kZeros);
  add_norms(config, builder, {"input_layernorm", "post_attention_layernorm"});
}

}  // namespace

const Family kGptOss = {
    .model_type = "gpt_oss",
    .description = "gpt-oss decoder: attention sinks, a window in every second layer, experts",
    .layer_class = "transformers.models.gpt_oss.modeling_gpt_oss.GptOssDecoderLayer",
    .defaults = {.max_position_embeddings = 131072,
                 .key_value_heads = 8,
                 .head_dim = 64,
                 .norm_eps = 1e-5,
                 .rope_theta = 150000.0},
    .read_config = read_config,
    .add_layer = add_layer,
    .tp_rows = kLlamaTpRows,
};

}  // namespace am::model
