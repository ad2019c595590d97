// Hunyuan: the Llama decoder with norms over each query and key head, applied after RoPE. The MoE
// models have routed experts and one shared expert in every layer.
#include <algorithm>
#include <cmath>

#include "am/model/families/blocks.h"
#include "am/model/families/families.h"
#include "am/model/rope_config.h"

namespace am::model {
namespace {

constexpr int64_t kMostTaken = int64_t{1} << 14;

// Reads the keys of Hunyuan. A rotary embedding of type "dynamic" with a key alpha is NTK-aware
// scaling with a fixed factor: theta is multiplied by alpha^(d / (d - 2)), where d is head_dim.
void read_config(ConfigReader& reader, ModelConfig& config) {
  read_attention_bias(reader, config);
  config.qk_norm = config.qk_norm_follows_rope = true;
  const auto alpha = rope_number(reader, "alpha", 1e-6, 1e9);
  if (config.rope.type != "dynamic" || !alpha.has_value()) return;
  const auto width = static_cast<double>(config.head_dim);
  config.rope.type = "default";
  config.rope.theta *= std::pow(*alpha, width / (width - 2.0));
}

// Returns the number of experts per token from the list moe_topk, which must contain the same
// number for every layer. Adds an error if the numbers differ, or if the list is shorter than the
// number of layers.
int64_t read_taken_list(ConfigReader& reader, const ModelConfig& config) {
  constexpr std::string_view kKey = "moe_topk";
  const Json& all = reader.raw(kKey);
  const bool fits =
      static_cast<int64_t>(all.size()) >= config.num_hidden_layers && !all.empty() &&
      std::all_of(all.begin(), all.end(), [&](const Json& each) {
        return each.is_number_integer() && each >= 1 && each <= kMostTaken && each == all.front();
      });
  if (fits) return all.front().get<int64_t>();
  reader.error("model.value", kKey, "moe_topk must have the same number for every layer",
               "give one number for all layers");
  return 1;
}

// Reads the keys of Hunyuan's MoE models. intermediate_size is the width of a routed expert, and
// also of the shared expert.
void read_moe_config(ConfigReader& reader, ModelConfig& config) {
  read_config(reader, config);
  // If moe_topk is a list, the number in the list is the default of num_experts_per_tok.
  const bool listed = reader.raw("moe_topk").is_array();
  const int64_t taken = listed ? read_taken_list(reader, config) : 1;
  const auto read = [&](std::initializer_list<std::string_view> spellings) {
    read_moe(reader, config,
             {.experts = {"num_experts", "num_local_experts"},
              .default_experts = 1,
              .experts_per_token = spellings,
              .default_experts_per_token = taken,
              .width = "intermediate_size",
              .default_width = 11008});
  };
  if (listed) {
    read({"num_experts_per_tok"});
  } else {
    read({"moe_topk", "num_experts_per_tok"});
  }
  if (!config.moe.has_value()) return;
  config.moe->normalise = true;
  config.moe->shared_width = config.intermediate_size;
}

// Returns a layer with attention only.
LayerSpec attention_layer(const ModelConfig& config, int64_t layer) {
  LayerSpec spec = start_layer(config, layer);
  add_attention(config, spec,
                {.query_norm = "self_attn.query_layernorm", .key_norm = "self_attn.key_layernorm"});
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
  add_router(config, spec, "mlp.gate.wg");
  add_experts(config, spec, "mlp.experts");
  add_shared_experts(config, spec, "mlp.shared_mlp");
  add_norms(config, spec, kLlamaNorms);
  return spec;
}

}  // namespace

const Family kHunyuanV1Dense = {
    .model_type = "hunyuan_v1_dense",
    .description = "Hunyuan decoder: Llama's with norms over rotated queries and keys",
    .layer_class =
        "transformers.models.hunyuan_v1_dense.modeling_hunyuan_v1_dense.HunYuanDenseV1DecoderLayer",
    .defaults = {.max_position_embeddings = 2048, .norm_eps = 1e-5, .pad_token_id = 0},
    .read_config = read_config,
    .describe_layer = describe_layer,
};

const Family kHunyuanV1Moe = {
    .model_type = "hunyuan_v1_moe",
    .description = "Hunyuan MoE decoder: Hunyuan's attention, routed experts and a shared one",
    .layer_class =
        "transformers.models.hunyuan_v1_moe.modeling_hunyuan_v1_moe.HunYuanMoEV1DecoderLayer",
    .defaults = {.max_position_embeddings = 2048, .norm_eps = 1e-5, .pad_token_id = 0},
    .read_config = read_moe_config,
    .describe_layer = describe_moe_layer,
};

}  // namespace am::model
