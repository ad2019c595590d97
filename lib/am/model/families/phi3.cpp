// Phi-3 and Phi-4: the Llama decoder with one matrix for queries, keys and values, and one for gate
// and up.
#include "am/model/families/blocks.h"
#include "am/model/families/families.h"
#include "am/model/families/tp_rows.h"

namespace am::model {
namespace {

// Attention works on whole heads on every rank, because the fused matrix lies as all queries, all
// keys, all values: its slices would not be heads. The weights are cut all the same, the way that
// needs no slice of the output. There is no sequence parallelism.
constexpr std::array<TpRow, 6> kTpRows = {{
    kEmbeddingRow,
    cut("model.layers.*.self_attn.qkv_proj", TpStyle::kRowwiseRep),
    cut("model.layers.*.self_attn.o_proj", TpStyle::kColwiseRep),
    cut("model.layers.*.mlp.gate_up_proj", TpStyle::kColwise),
    cut("model.layers.*.mlp.down_proj", TpStyle::kRowwise),
    kHeadRow,
}};

void read_config(ConfigReader& reader, ModelConfig& config) { read_window(reader, config, 0); }

void add_layer(const ModelConfig& config, int64_t /*layer*/, InventoryBuilder& builder) {
  const int64_t query = config.num_attention_heads * config.head_dim;
  const int64_t key_value = config.num_key_value_heads * config.head_dim;
  builder.linear("self_attn.o_proj", config.hidden_size, query, false);
  builder.linear("self_attn.qkv_proj", query + 2 * key_value, config.hidden_size, false);
  builder.linear("mlp.gate_up_proj", 2 * config.intermediate_size, config.hidden_size, false);
  builder.linear("mlp.down_proj", config.hidden_size, config.intermediate_size, false);
  add_norms(config, builder, {"input_layernorm", "post_attention_layernorm"});
}

}  // namespace

const Family kPhi3 = {
    .model_type = "phi3",
    .description =
        "Phi-3 decoder: Llama's, queries, keys and values in one matrix, gate and up in one",
    .layer_class = "transformers.models.phi3.modeling_phi3.Phi3DecoderLayer",
    .defaults = {.max_position_embeddings = 4096, .norm_eps = 1e-5},
    .read_config = read_config,
    .add_layer = add_layer,
    .tp_rows = kTpRows,
};

}  // namespace am::model
