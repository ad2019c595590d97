// DiffLlama: Llama with differential attention, the difference of two attentions of half the heads
// each. Four vectors per layer determine the weight of the second attention.
#include "am/model/families/blocks.h"
#include "am/model/families/families.h"

namespace am::model {
namespace {

void read_config(ConfigReader& reader, ModelConfig& config) { read_attention_bias(reader, config); }

LayerSpec describe_layer(const ModelConfig& config, int64_t layer) {
  LayerSpec spec = llama_layer(config, layer);
  for (const std::string_view leaf : {"lambda_q1", "lambda_k1", "lambda_q2", "lambda_k2"}) {
    spec.modules.push_back(other_vector("self_attn", config.head_dim, leaf));
  }
  return spec;
}

}  // namespace

const Family kDiffllama = {
    .model_type = "diffllama",
    .description = "DiffLlama decoder: Llama's with differential attention",
    .layer_class = "transformers.models.diffllama.modeling_diffllama.DiffLlamaDecoderLayer",
    .defaults = {.norm_eps = 1e-5},
    .runs = false,
    .read_config = read_config,
    .describe_layer = describe_layer,
};

}  // namespace am::model
