// OLMo 2: the Llama decoder with norms after attention and MLP, and norms over all query and all
// key heads together.
#include "am/model/families/blocks.h"
#include "am/model/families/families.h"

namespace am::model {
namespace {

void read_config(ConfigReader& reader, ModelConfig& config) {
  read_attention_bias(reader, config);
  config.qk_norm = true;
  config.qk_norm_spans_heads = true;
}

}  // namespace

const Family kOlmo2 = {
    .model_type = "olmo2",
    .description = "OLMo 2 decoder: Llama's with norms after attention and MLP and over all heads",
    .layer_class = "transformers.models.olmo2.modeling_olmo2.Olmo2DecoderLayer",
    .defaults = {.max_position_embeddings = 2048, .norm_eps = 1e-5, .pad_token_id = 1},
    .norm = NormKind::kRmsWide,
    .read_config = read_config,
    .describe_layer = post_norm_layer,
};

}  // namespace am::model
