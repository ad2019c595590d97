// DeepSeek V3 and R1, Kimi, Moonlight: DeepSeek V2 with a load-balancing bias in the router and
// multi-token-prediction layers.
#include "am/model/families/blocks.h"
#include "am/model/families/deepseek.h"
#include "am/model/families/families.h"

namespace am::model {
namespace {

void read_config(ConfigReader& reader, ModelConfig& config) {
  read_deepseek(reader, config, kDeepseekV3Defaults);
  config.mla->interleaved = reader.boolean("rope_interleave").value_or(true);
  read_normalisation(reader, config, true);
  read_mtp_layers(reader, config);
}

}  // namespace

const Family kDeepseekV3 = {
    .model_type = "deepseek_v3",
    .description = "DeepSeek V3 decoder: V2's with balanced routing and multi-token prediction",
    .layer_class = "transformers.models.deepseek_v3.modeling_deepseek_v3.DeepseekV3DecoderLayer",
    .keys = {.head_dim = "qk_rope_head_dim"},
    .defaults = {.max_position_embeddings = 4096, .head_dim = 64},
    .rotary = false,
    .read_config = read_config,
    .describe_layer = deepseek_v3_layer,
};

}  // namespace am::model
