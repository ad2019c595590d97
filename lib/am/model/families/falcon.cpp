// Falcon (7B, 40B, 180B, RW): queries, keys and values in one matrix, mostly with attention and a
// plain MLP side by side.
#include "am/model/families/blocks.h"
#include "am/model/families/families.h"
#include "am/model/families/tp_rows.h"

namespace am::model {
namespace {

// As for GPT-2: the vocabulary and the MLP are cut, the fused attention stays whole.
constexpr std::array<TpRow, 4> kTpRows = {{
    cut("transformer.word_embeddings", TpStyle::kRowwiseRep),
    cut("transformer.h.*.mlp.dense_h_to_4h", TpStyle::kColwise),
    cut("transformer.h.*.mlp.dense_4h_to_h", TpStyle::kRowwise),
    kHeadRow,
}};

// Key/value heads are as many as written in the new architecture alone; else one, or all.
void read_config(ConfigReader& reader, ModelConfig& config) {
  const bool bias = reader.boolean("bias").value_or(false);
  config.qkv_bias = config.o_bias = config.mlp_bias = bias;
  config.norm_bias = true;
  config.gated_mlp = false;
  const bool grouped = reader.boolean("new_decoder_architecture").value_or(false);
  const bool one = reader.boolean("multi_query").value_or(true);
  if (!grouped) config.num_key_value_heads = one ? 1 : config.num_attention_heads;
  config.parallel_block = reader.boolean("parallel_attn").value_or(true);
  const int64_t norms = reader.integer("num_ln_in_parallel_attn", 1, 2).value_or(grouped ? 2 : 1);
  config.hidden_norms = config.parallel_block ? static_cast<int>(norms) : 2;
}

void add_layer(const ModelConfig& config, int64_t /*layer*/, InventoryBuilder& builder) {
  const int64_t hidden = config.hidden_size;
  const int64_t query = config.num_attention_heads * config.head_dim;
  const int64_t fused = query + 2 * config.num_key_value_heads * config.head_dim;
  builder.linear("self_attention.query_key_value", fused, hidden, config.qkv_bias);
  builder.linear("self_attention.dense", hidden, query, config.o_bias);
  builder.linear("mlp.dense_h_to_4h", config.intermediate_size, hidden, config.mlp_bias);
  builder.linear("mlp.dense_4h_to_h", hidden, config.intermediate_size, config.mlp_bias);
  if (!config.parallel_block) {
    add_norms(config, builder, {"post_attention_layernorm", "input_layernorm"});
  } else if (config.hidden_norms == 2) {
    add_norms(config, builder, {"ln_attn", "ln_mlp"});
  } else {
    add_norms(config, builder, {"input_layernorm"});
  }
}

}  // namespace

const Family kFalcon = {
    .model_type = "falcon",
    .description = "Falcon decoder: multi-query attention and a plain MLP side by side",
    .layer_class = "transformers.models.falcon.modeling_falcon.FalconDecoderLayer",
    .keys = {.intermediate_size = "ffn_hidden_size",
             .key_value_heads = "num_kv_heads",
             .head_dim = "",
             .norm_eps = "layer_norm_epsilon",
             .activation = "activation"},
    .defaults = {.max_position_embeddings = 2048,
                 .norm_eps = 1e-5,
                 .tie_word_embeddings = true,
                 .hidden_act = "gelu",
                 .intermediate_ratio = 4},
    .rotary = false,
    .names = {.embedding = "transformer.word_embeddings",
              .layers = "transformer.h",
              .norm = "transformer.ln_f"},
    .read_config = read_config,
    .add_layer = add_layer,
    .tp_rows = kTpRows,
};

}  // namespace am::model
