// OPT: learned positions, LayerNorm, and an MLP without a gate, with ReLU. All projections and
// norms in the layers have biases.
#include <utility>

#include "am/base/text.h"
#include "am/model/families/blocks.h"
#include "am/model/families/families.h"

namespace am::model {
namespace {

void read_config(ConfigReader& reader, ModelConfig& config) {
  rotate_no_layer(config);
  config.qkv_bias = config.o_bias = config.mlp_bias = true;
  config.norm_bias = true;
  config.gated_mlp = false;
  for (const auto& [key, only] : {std::pair{"do_layer_norm_before", true},
                                  {"_remove_final_layer_norm", false},
                                  {"enable_bias", true},
                                  {"layer_norm_elementwise_affine", true}}) {
    require_boolean(reader, key, only,
                    cat(key, " = ", only ? "false" : "true", " is not supported"));
  }
  const int64_t width =
      reader.integer("word_embed_proj_dim", 1, int64_t{1} << 20).value_or(config.hidden_size);
  if (width != config.hidden_size) {
    reader.error("model.value", "word_embed_proj_dim",
                 cat("an embedding of another width than hidden_size = ", config.hidden_size,
                     " is not supported"));
  }
}

}  // namespace

const Family kOpt = {
    .model_type = "opt",
    .description = "OPT decoder: learned positions, LayerNorm, a plain MLP with ReLU",
    .layer_class = "transformers.models.opt.modeling_opt.OPTDecoderLayer",
    .keys = {.intermediate_size = "ffn_dim",
             .key_value_heads = "",
             .head_dim = "",
             .norm_eps = "",
             .activation = "activation_function"},
    .defaults = {.max_position_embeddings = 2048,
                 .norm_eps = 1e-5,
                 .tie_word_embeddings = true,
                 .hidden_act = "relu",
                 .pad_token_id = 1},
    .rotary = false,
    .norm = NormKind::kLayer,
    .positions_offset = 2,
    .names = {.embedding = "model.decoder.embed_tokens",
              .positions = "model.decoder.embed_positions",
              .layers = "model.decoder.layers",
              .norm = "model.decoder.final_layer_norm"},
    .read_config = read_config,
    .describe_layer = opt_layer,
};

}  // namespace am::model
