// GLM-4.5 to 4.7: RoPE over a part of each head, and DeepSeek V3's experts.
#include "am/model/families/blocks.h"
#include "am/model/families/deepseek.h"
#include "am/model/families/families.h"

namespace am::model {
namespace {

constexpr double kRotatedPart = 0.5;

void read_config(ConfigReader& reader, ModelConfig& config) {
  config.qkv_bias = reader.boolean("attention_bias").value_or(false);
  config.qk_norm = reader.boolean("use_qk_norm").value_or(false);
  set_rotated_part(reader, config, kRotatedPart);
  read_deepseek_experts(reader, config,
                        {.experts = 128,
                         .experts_per_token = 8,
                         .expert_width = 1408,
                         .shared_experts = 1,
                         .dense_layers = 1,
                         .groups = 1,
                         .topk_groups = 1,
                         .scale = 1.0});
  read_normalisation(reader, config, true);
  read_mtp_layers(reader, config);
}

}  // namespace

const Family kGlm4Moe = {
    .model_type = "glm4_moe",
    .description = "GLM-4.5 decoder: partly rotated attention, DeepSeek V3's experts",
    .layer_class = "transformers.models.glm4_moe.modeling_glm4_moe.Glm4MoeDecoderLayer",
    .defaults = {.max_position_embeddings = 131072, .key_value_heads = 8, .norm_eps = 1e-5},
    .rotates_part = true,
    .read_config = read_config,
    .describe_layer = deepseek_v3_experts_layer,
};

}  // namespace am::model
