// dots.llm1: Qwen3's attention, and DeepSeek V3's experts.
#include "am/model/families/blocks.h"
#include "am/model/families/deepseek.h"
#include "am/model/families/families.h"

namespace am::model {
namespace {

constexpr int64_t kWindow = 4096;
constexpr int64_t kFirstWindowLayer = 62;

void read_config(ConfigReader& reader, ModelConfig& config) {
  read_attention_bias(reader, config);
  config.qk_norm = true;
  read_late_window(reader, config, kWindow, kFirstWindowLayer);
  read_deepseek_experts(reader, config,
                        {.experts = 0,
                         .experts_per_token = 0,
                         .expert_width = 1408,
                         .shared_experts = 0,
                         .dense_layers = 0,
                         .groups = 1,
                         .topk_groups = 1,
                         .scale = 1.0});
  read_normalisation(reader, config, false);
}

}  // namespace

const Family kDots1 = {
    .model_type = "dots1",
    .description = "dots.llm1 decoder: Qwen3's attention, DeepSeek V3's experts",
    .layer_class = "transformers.models.dots1.modeling_dots1.Dots1DecoderLayer",
    .defaults = {.max_position_embeddings = 2048, .key_value_heads = 32},
    .read_config = read_config,
    .describe_layer = deepseek_v3_experts_layer,
};

}  // namespace am::model
