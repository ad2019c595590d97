// GPT-2: learned positions, LayerNorm, a plain MLP, and weights stored [in, out].
#include "am/model/families/blocks.h"
#include "am/model/families/families.h"
#include "am/model/families/tp_rows.h"

namespace am::model {
namespace {

// AutoModel has no plan for it, and the names of its fallback match nothing here. Ours cuts what is
// the same everywhere: the vocabulary and the MLP. c_attn holds queries, keys and values one after
// the other, so that its slices would not be heads: attention stays whole.
constexpr std::array<TpRow, 3> kTpRows = {{
    cut("transformer.wte", TpStyle::kRowwiseRep),
    cut("transformer.h.*.mlp.c_fc", TpStyle::kColwise),
    cut("transformer.h.*.mlp.c_proj", TpStyle::kRowwise),
}};

void read_config(ConfigReader& /*reader*/, ModelConfig& config) {
  config.qkv_bias = config.o_bias = config.mlp_bias = true;
  config.norm_bias = true;
  config.gated_mlp = false;
}

void add_layer(const ModelConfig& config, int64_t /*layer*/, InventoryBuilder& builder) {
  const int64_t hidden = config.hidden_size;
  add_norms(config, builder, {"ln_1"});
  builder.conv1d("attn.c_attn", 3 * hidden, hidden);
  builder.conv1d("attn.c_proj", hidden, hidden);
  add_norms(config, builder, {"ln_2"});
  builder.conv1d("mlp.c_fc", config.intermediate_size, hidden);
  builder.conv1d("mlp.c_proj", hidden, config.intermediate_size);
}

void add_positions(const ModelConfig& config, InventoryBuilder& builder) {
  builder.embedding("transformer.wpe", config.max_position_embeddings, config.hidden_size);
}

}  // namespace

const Family kGpt2 = {
    .model_type = "gpt2",
    .description = "GPT-2 decoder: learned positions, LayerNorm, a plain MLP with GELU",
    .layer_class = "transformers.models.gpt2.modeling_gpt2.GPT2Block",
    .keys = {.hidden_size = "n_embd",
             .intermediate_size = "n_inner",
             .layers = "n_layer",
             .heads = "n_head",
             .key_value_heads = "",
             .head_dim = "",
             .positions = "n_positions",
             .norm_eps = "layer_norm_epsilon",
             .activation = "activation_function"},
    .defaults = {.max_position_embeddings = 1024,
                 .norm_eps = 1e-5,
                 .tie_word_embeddings = true,
                 .hidden_act = "gelu_new",
                 .intermediate_ratio = 4},
    .rotary = false,
    .names = {.embedding = "transformer.wte",
              .layers = "transformer.h",
              .norm = "transformer.ln_f"},
    .read_config = read_config,
    .add_layer = add_layer,
    .add_positions = add_positions,
    .tp_rows = kTpRows,
};

}  // namespace am::model
