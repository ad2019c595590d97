#include "am/model/families/blocks.h"

#include "am/base/text.h"

namespace am::model {

void add_attention(const ModelConfig& config, InventoryBuilder& builder,
                   const AttentionNames& names) {
  const int64_t hidden = config.hidden_size;
  const int64_t query = config.num_attention_heads * config.head_dim;
  const int64_t key_value = config.num_key_value_heads * config.head_dim;
  builder.linear("self_attn.q_proj", query, hidden, config.qkv_bias);
  builder.linear("self_attn.k_proj", key_value, hidden, config.qkv_bias);
  builder.linear("self_attn.v_proj", key_value, hidden, config.qkv_bias);
  builder.linear(names.output, hidden, query, config.o_bias);
  if (!config.qk_norm) return;
  const bool wide = config.qk_norm_spans_heads;
  builder.norm(names.query_norm, wide ? query : config.head_dim);
  builder.norm(names.key_norm, wide ? key_value : config.head_dim);
}

void add_mla(const ModelConfig& config, InventoryBuilder& builder) {
  const MlaConfig& mla = *config.mla;
  const int64_t hidden = config.hidden_size;
  const int64_t heads = config.num_attention_heads;
  if (mla.q_lora_rank == 0) {
    builder.linear("self_attn.q_proj", heads * mla.qk_head_dim(), hidden, false);
  } else {
    builder.linear("self_attn.q_a_proj", mla.q_lora_rank, hidden, config.o_bias);
    builder.norm("self_attn.q_a_layernorm", mla.q_lora_rank);
    builder.linear("self_attn.q_b_proj", heads * mla.qk_head_dim(), mla.q_lora_rank, false);
  }
  builder.linear("self_attn.kv_a_proj_with_mqa", mla.kv_lora_rank + mla.qk_rope_head_dim, hidden,
                 config.o_bias);
  builder.norm("self_attn.kv_a_layernorm", mla.kv_lora_rank);
  builder.linear("self_attn.kv_b_proj", heads * (mla.qk_nope_head_dim + mla.v_head_dim),
                 mla.kv_lora_rank, false);
  builder.linear("self_attn.o_proj", hidden, heads * mla.v_head_dim, config.o_bias);
}

void add_gated_mlp(const ModelConfig& config, InventoryBuilder& builder, std::string_view module,
                   int64_t width) {
  const GatedNames names;
  builder.linear(cat(module, ".", names.gate), width, config.hidden_size, config.mlp_bias);
  builder.linear(cat(module, ".", names.up), width, config.hidden_size, config.mlp_bias);
  builder.linear(cat(module, ".", names.down), config.hidden_size, width, config.mlp_bias);
}

void add_experts(const ModelConfig& config, InventoryBuilder& builder, std::string_view module,
                 const GatedNames& names) {
  const int64_t width = config.moe->expert_width;
  for (int64_t expert = 0; expert < config.moe->experts; ++expert) {
    const std::string prefix = cat(module, ".", expert, ".");
    builder.expert(cat(prefix, names.gate), width, config.hidden_size);
    builder.expert(cat(prefix, names.up), width, config.hidden_size);
    builder.expert(cat(prefix, names.down), config.hidden_size, width);
  }
}

void add_norms(const ModelConfig& config, InventoryBuilder& builder,
               std::initializer_list<std::string_view> modules) {
  for (const std::string_view module : modules) builder.norm(module, config.hidden_size);
}

void add_llama_layer(const ModelConfig& config, int64_t /*layer*/, InventoryBuilder& builder) {
  add_attention(config, builder);
  add_gated_mlp(config, builder, "mlp", config.intermediate_size);
  add_norms(config, builder, {"input_layernorm", "post_attention_layernorm"});
}

}  // namespace am::model
