// BioGPT and XGLM: OPT's layers, with scaled embeddings and with learned (BioGPT) or computed
// (XGLM) positions.
#include <cmath>

#include "am/model/families/blocks.h"
#include "am/model/families/families.h"

namespace am::model {
namespace {

void read_config(ConfigReader& reader, ModelConfig& config) {
  rotate_no_layer(config);
  config.qkv_bias = config.o_bias = config.mlp_bias = config.norm_bias = true;
  config.gated_mlp = false;
  if (reader.boolean("scale_embedding").value_or(true)) {
    config.embedding_scale = std::sqrt(static_cast<double>(config.hidden_size));
  }
  require_boolean(reader, "add_cross_attention", false, "cross-attention is not supported");
}

}  // namespace

const Family kBiogpt = {
    .model_type = "biogpt",
    .description = "BioGPT decoder: OPT's with scaled embeddings",
    .layer_class = "transformers.models.biogpt.modeling_biogpt.BioGptDecoderLayer",
    .keys = {.key_value_heads = "", .head_dim = "", .norm_eps = ""},
    .defaults = {.max_position_embeddings = 1024,
                 .norm_eps = 1e-5,
                 .tie_word_embeddings = true,
                 .hidden_act = "gelu",
                 .pad_token_id = 1},
    .runs = false,
    .rotary = false,
    .norm = NormKind::kLayer,
    .positions_offset = 2,
    .names = {.embedding = "biogpt.embed_tokens",
              .positions = "biogpt.embed_positions",
              .layers = "biogpt.layers",
              .norm = "biogpt.layer_norm",
              .head = "output_projection"},
    .read_config = read_config,
    .describe_layer = opt_layer,
};

const Family kXglm = {
    .model_type = "xglm",
    .description = "XGLM decoder: OPT's with scaled embeddings and computed positions",
    .layer_class = "transformers.models.xglm.modeling_xglm.XGLMDecoderLayer",
    .keys = {.hidden_size = "d_model",
             .intermediate_size = "ffn_dim",
             .layers = "num_layers",
             .heads = "attention_heads",
             .key_value_heads = "",
             .head_dim = "",
             .norm_eps = "",
             .activation = "activation_function",
             .spellings = {{{"d_model", "hidden_size"},
                            {"attention_heads", "num_attention_heads"},
                            {"num_layers", "num_hidden_layers"}}}},
    .defaults = {.max_position_embeddings = 2048,
                 .norm_eps = 1e-5,
                 .tie_word_embeddings = true,
                 .hidden_act = "gelu",
                 .pad_token_id = 1},
    .runs = false,
    .rotary = false,
    .norm = NormKind::kLayer,
    .names = {.norm = "model.layer_norm"},
    .read_config = read_config,
    .describe_layer = opt_layer,
};

}  // namespace am::model
