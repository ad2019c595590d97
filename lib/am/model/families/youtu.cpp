// Youtu-LLM: DeepSeek's latent attention, and a dense MLP in every layer.
#include "am/model/families/blocks.h"
#include "am/model/families/deepseek.h"
#include "am/model/families/families.h"

namespace am::model {
namespace {

void read_config(ConfigReader& reader, ModelConfig& config) {
  read_latent_attention(reader, config);
  config.mla->interleaved = reader.boolean("rope_interleave").value_or(true);
}

}  // namespace

const Family kYoutu = {
    .model_type = "youtu",
    .description = "Youtu decoder: latent attention, a dense MLP in every layer",
    .layer_class = "transformers.models.youtu.modeling_youtu.YoutuDecoderLayer",
    .keys = {.head_dim = "qk_rope_head_dim"},
    .defaults = {.max_position_embeddings = 131072, .head_dim = 64, .tie_word_embeddings = true},
    .runs = false,
    .rotary = false,
    .read_config = read_config,
    .describe_layer = deepseek_v3_layer,
};

}  // namespace am::model
