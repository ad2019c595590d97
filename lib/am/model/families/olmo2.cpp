// OLMo 2: the Llama decoder with norms after attention and MLP, and norms over all query and all
// key heads together.
#include "am/model/families/blocks.h"
#include "am/model/families/families.h"
#include "am/model/families/tp_rows.h"

namespace am::model {
namespace {

// q_norm and k_norm need all heads of a token at once, so that queries, keys and values are
// gathered before attention. (A plan that hands out heads would normalise each rank's part for
// itself.)
constexpr std::array<TpRow, 12> kTpRows = {{
    kEmbeddingRow,
    cut("model.layers.*.self_attn.q_proj", TpStyle::kColwiseRep),
    cut("model.layers.*.self_attn.k_proj", TpStyle::kColwiseRep),
    cut("model.layers.*.self_attn.v_proj", TpStyle::kColwiseRep),
    cut("model.layers.*.self_attn.o_proj", TpStyle::kRowwiseRep),
    cut("model.layers.*.mlp.gate_proj", TpStyle::kColwise),
    cut("model.layers.*.mlp.up_proj", TpStyle::kColwise),
    cut("model.layers.*.mlp.down_proj", TpStyle::kRowwise),
    sequence_norm("model.layers.*.post_attention_layernorm"),
    sequence_norm("model.layers.*.post_feedforward_layernorm"),
    kFinalNormRow,
    kHeadRow,
}};

void read_config(ConfigReader& reader, ModelConfig& config) {
  read_attention_bias(reader, config);
  config.qk_norm = true;
  config.qk_norm_spans_heads = true;
}

void add_layer(const ModelConfig& config, int64_t /*layer*/, InventoryBuilder& builder) {
  add_attention(config, builder);
  add_gated_mlp(config, builder, "mlp", config.intermediate_size);
  add_norms(config, builder, {"post_attention_layernorm", "post_feedforward_layernorm"});
}

}  // namespace

const Family kOlmo2 = {
    .model_type = "olmo2",
    .description = "OLMo 2 decoder: Llama's with norms after attention and MLP and over all heads",
    .layer_class = "transformers.models.olmo2.modeling_olmo2.Olmo2DecoderLayer",
    .defaults = {.max_position_embeddings = 2048, .norm_eps = 1e-5},
    .read_config = read_config,
    .add_layer = add_layer,
    .tp_rows = kTpRows,
};

}  // namespace am::model
