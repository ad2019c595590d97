// MiniCPM3: DeepSeek's latent attention, a dense MLP, and factors of embeddings, residual branches
// and logits.
#include <algorithm>
#include <cmath>

#include "am/model/families/blocks.h"
#include "am/model/families/deepseek.h"
#include "am/model/families/families.h"

namespace am::model {
namespace {

constexpr double kEmbeddingScale = 12.0;
constexpr double kDepthScale = 1.4;
constexpr double kBaseWidth = 256.0;

// Reads the keys of MiniCPM3. Without v_head_dim, the width of a head's values is hidden_size /
// heads.
void read_config(ConfigReader& reader, ModelConfig& config) {
  const int64_t heads = std::max<int64_t>(config.num_attention_heads, 1);
  read_latent_attention(reader, config,
                        {.query_rank = 768,
                         .key_rank = 256,
                         .plain_width = 64,
                         .value_width = std::max<int64_t>(config.hidden_size / heads, 1)});
  config.mla->interleaved = false;
  config.mlp_bias = reader.boolean("mlp_bias").value_or(false);
  const double layers = std::sqrt(static_cast<double>(config.num_hidden_layers));
  config.embedding_scale = read_switchable(reader, "scale_emb", kEmbeddingScale).value_or(1.0);
  config.residual_scale =
      read_switchable(reader, "scale_depth", kDepthScale).value_or(layers) / layers;
  const auto hidden = static_cast<double>(config.hidden_size);
  config.logit_scale =
      read_switchable(reader, "dim_model_base", kBaseWidth).value_or(hidden) / hidden;
}

}  // namespace

const Family kMinicpm3 = {
    .model_type = "minicpm3",
    .description =
        "MiniCPM3 decoder: latent attention, scaling embeddings, residual branches and "
        "logits",
    .layer_class = "transformers.models.minicpm3.modeling_minicpm3.MiniCPM3DecoderLayer",
    .keys = {.head_dim = "qk_rope_head_dim"},
    .defaults = {.max_position_embeddings = 32768,
                 .head_dim = 32,
                 .norm_eps = 1e-5,
                 .initializer_range = 0.1,
                 .tie_word_embeddings = true},
    .runs = false,
    .rotary = false,
    .read_config = read_config,
    .describe_layer = deepseek_v3_layer,
};

}  // namespace am::model
