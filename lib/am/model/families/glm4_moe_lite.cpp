// GLM-4.7-Flash: DeepSeek's latent attention, and DeepSeek V3's experts.
#include "am/model/families/blocks.h"
#include "am/model/families/deepseek.h"
#include "am/model/families/families.h"

namespace am::model {
namespace {

void read_config(ConfigReader& reader, ModelConfig& config) {
  read_latent_attention(
      reader, config, {.query_rank = 768, .key_rank = 512, .plain_width = 192, .value_width = 256});
  read_deepseek_experts(reader, config,
                        {.experts = 64,
                         .experts_per_token = 4,
                         .expert_width = 1536,
                         .shared_experts = 1,
                         .dense_layers = 1,
                         .groups = 1,
                         .topk_groups = 1,
                         .scale = 1.8});
  read_mlp_layer_types(reader, config, 1);
  config.mla->interleaved = reader.boolean("rope_interleave").value_or(true);
  read_normalisation(reader, config, true);
}

}  // namespace

const Family kGlm4MoeLite = {
    .model_type = "glm4_moe_lite",
    .description = "GLM-4.7-Flash decoder: latent attention, DeepSeek V3's experts",
    .layer_class =
        "transformers.models.glm4_moe_lite.modeling_glm4_moe_lite.Glm4MoeLiteDecoderLayer",
    .keys = {.head_dim = "qk_rope_head_dim"},
    .defaults = {.max_position_embeddings = 202752, .head_dim = 64, .norm_eps = 1e-5},
    .runs = false,
    .rotary = false,
    .read_config = read_config,
    .describe_layer = deepseek_v3_layer,
};

}  // namespace am::model
