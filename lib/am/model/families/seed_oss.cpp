// Seed-OSS: the Llama decoder with biases on queries, keys and values.
#include "am/model/families/blocks.h"
#include "am/model/families/families.h"

namespace am::model {
namespace {

constexpr double kDropout = 0.1;

// Reads the keys of Seed-OSS. A dropout key that is missing has the default of transformers' class,
// kDropout.
void read_config(ConfigReader& reader, ModelConfig& config) {
  config.qkv_bias = reader.boolean("attention_bias").value_or(true);
  config.o_bias = reader.boolean("attention_out_bias").value_or(false);
  config.mlp_bias = reader.boolean("mlp_bias").value_or(false);
  for (const char* key : {"attention_dropout", "residual_dropout"}) {
    if (config.dropout > 0.0 || reader.has(key)) continue;
    config.dropout_key = key;
    config.dropout = kDropout;
  }
}

}  // namespace

const Family kSeedOss = {
    .model_type = "seed_oss",
    .description = "Seed-OSS decoder: Llama's with biases on queries, keys and values",
    .layer_class = "transformers.models.seed_oss.modeling_seed_oss.SeedOssDecoderLayer",
    .defaults = {.max_position_embeddings = 524288,
                 .key_value_heads = 8,
                 .head_dim = 128,
                 .pad_token_id = 1},
    .read_config = read_config,
    .describe_layer = llama_layer,
};

}  // namespace am::model
