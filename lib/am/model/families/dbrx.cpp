// DBRX: one matrix for queries, keys and values, LayerNorm, and experts in every layer. One
// matrix per projection stores the experts' matrices one below the other.
#include "am/base/legal_values.h"
#include "am/base/text.h"
#include "am/model/families/blocks.h"
#include "am/model/families/families.h"

namespace am::model {
namespace {

void read_attention(ConfigReader reader, ModelConfig& config) {
  config.num_key_value_heads = reader.integer("kv_n_heads", 1, config.num_attention_heads)
                                   .value_or(config.num_key_value_heads);
  if (config.num_attention_heads % config.num_key_value_heads != 0) {
    reader.error("model.heads", "kv_n_heads",
                 cat("kv_n_heads = ", config.num_key_value_heads,
                     " does not divide n_heads = ", config.num_attention_heads),
                 cat("legal: ", join(divisors(config.num_attention_heads), ", ")));
  }
  config.qkv_limit = reader.number("clip_qkv", 0.0, 1e6);
  config.rope.theta = reader.number("rope_theta", 1.0, 1e12).value_or(config.rope.theta);
}

// Reads the keys of the experts. Routing weights are normalised unless
// moe_normalize_expert_weights, the exponent of their norm, is null.
void read_experts(ConfigReader reader, ModelConfig& config) {
  read_moe(reader, config,
           {.experts = {"moe_num_experts"},
            .default_experts = 4,
            .experts_per_token = {"moe_top_k"},
            .default_experts_per_token = 1,
            .width = "ffn_hidden_size",
            .default_width = 3584});
  if (!config.moe.has_value()) return;
  config.intermediate_size = config.moe->expert_width;
  constexpr std::string_view kExponent = "moe_normalize_expert_weights";
  config.moe->normalise = !reader.has(kExponent) || !reader.raw(kExponent).is_null();
}

void read_config(ConfigReader& reader, ModelConfig& config) {
  config.num_key_value_heads = 1;
  require_boolean(reader, "tie_word_embeddings", false, "DBRX's head is not tied");
  read_attention(reader.nested_or_empty("attn_config"), config);
  read_experts(reader.nested_or_empty("ffn_config"), config);
}

// Returns a matrix of all experts, with the rows of one expert below those of another.
ModuleSpec joined_experts(const ModelConfig& config, Role role, std::string_view leaf) {
  const int64_t width = config.moe->expert_width, hidden = config.hidden_size;
  const bool down = role == Role::kExpertDown;
  ModuleSpec module = matrix(role, "ffn.experts.mlp", down ? hidden : width, down ? width : hidden);
  module.copies = config.moe->experts;
  module.joined = true;
  module.in_out = down;
  module.leaf = leaf;
  return module;
}

LayerSpec describe_layer(const ModelConfig& config, int64_t layer) {
  constexpr std::array<NamedNorm, 1> kFirst = {{{Role::kInputNorm, "norm_attn_norm.norm_1"}}};
  constexpr std::array<NamedNorm, 1> kSecond = {
      {{Role::kPreFeedForwardNorm, "norm_attn_norm.norm_2"}}};
  LayerSpec spec = start_layer(config, layer);
  add_norms(config, spec, kFirst);
  spec.modules.push_back(fused_attention(config, "norm_attn_norm.attn.Wqkv",
                                         AttentionSpec::Fused::kConcatenated, spec));
  spec.modules.push_back(matrix(Role::kAttentionOut, "norm_attn_norm.attn.out_proj",
                                config.hidden_size, config.hidden_size));
  add_norms(config, spec, kSecond);
  add_router(config, spec, "ffn.router.layer");
  spec.modules.push_back(joined_experts(config, Role::kExpertGate, "w1"));
  spec.modules.push_back(joined_experts(config, Role::kExpertUp, "v1"));
  spec.modules.push_back(joined_experts(config, Role::kExpertDown, "w2"));
  return spec;
}

}  // namespace

const Family kDbrx = {
    .model_type = "dbrx",
    .description =
        "DBRX decoder: fused q, k and v, LayerNorm, experts in one matrix per projection",
    .layer_class = "transformers.models.dbrx.modeling_dbrx.DbrxBlock",
    .keys = {.hidden_size = "d_model",
             .intermediate_size = "",
             .layers = "n_layers",
             .heads = "n_heads",
             .key_value_heads = "",
             .head_dim = "",
             .positions = "max_seq_len",
             .norm_eps = "",
             .activation = ""},
    .defaults = {.norm_eps = 1e-5, .intermediate_ratio = 1},
    .runs = false,
    .norm = NormKind::kLayer,
    .names = {.embedding = "transformer.wte",
              .layers = "transformer.blocks",
              .norm = "transformer.norm_f"},
    .read_config = read_config,
    .describe_layer = describe_layer,
};

}  // namespace am::model
