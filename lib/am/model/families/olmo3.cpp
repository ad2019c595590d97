// OLMo 3: OLMo 2 with a sliding window in three of four layers. Layers with and without the window
// have separate rotary embeddings.
#include "am/model/families/blocks.h"
#include "am/model/families/families.h"
#include "am/model/rope_config.h"

namespace am::model {
namespace {

constexpr int64_t kWindow = 4096;
constexpr int64_t kPeriod = 4;  // every fourth layer has full attention
constexpr double kTheta = 500000.0;

void read_config(ConfigReader& reader, ModelConfig& config) {
  read_attention_bias(reader, config);
  config.qk_norm = true;
  config.qk_norm_spans_heads = true;
  read_layer_ropes(reader, config, kTheta);
  read_window(reader, config, kWindow);
  read_window_layers(reader, config, kPeriod);
}

}  // namespace

const Family kOlmo3 = {
    .model_type = "olmo3",
    .description = "OLMo 3 decoder: OLMo 2's, full attention in every fourth layer",
    .layer_class = "transformers.models.olmo3.modeling_olmo3.Olmo3DecoderLayer",
    .defaults = {.max_position_embeddings = 2048,
                 .norm_eps = 1e-5,
                 .rope_theta = kTheta,
                 .pad_token_id = 1},
    .norm = NormKind::kRmsWide,
    .read_config = read_config,
    .describe_layer = post_norm_layer,
};

}  // namespace am::model
