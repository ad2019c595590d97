// DeepSeek V3.2: DeepSeek V3 with an indexer in each layer, which chooses the tokens that attention
// reads. Attention is planned as if it read all tokens.
#include <utility>

#include "am/model/families/blocks.h"
#include "am/model/families/deepseek.h"
#include "am/model/families/families.h"

namespace am::model {
namespace {

constexpr int64_t kMaxSize = int64_t{1} << 16;

// Reads the keys of DeepSeek V3.2. The indexer reads the low-rank vector of the queries.
void read_config(ConfigReader& reader, ModelConfig& config) {
  read_deepseek(reader, config, kDeepseekV3Defaults);
  if (!reader.raw("mlp_layer_types").is_null()) read_mlp_layer_types(reader, config, 0);
  read_normalisation(reader, config, true);
  read_mtp_layers(reader, config, 0);
  MixerConfig indexer;
  indexer.heads = reader.integer("index_n_heads", 1, kMaxSize).value_or(64);
  indexer.width = reader.integer("index_head_dim", 1, kMaxSize).value_or(128);
  config.mixer = std::move(indexer);
  if (config.mla->q_lora_rank == 0) {
    reader.error("model.value", "q_lora_rank", "the indexer needs low-rank queries",
                 "give q_lora_rank a number");
  }
}

LayerSpec describe_layer(const ModelConfig& config, int64_t layer) {
  const MixerConfig& indexer = *config.mixer;
  LayerSpec spec = deepseek_layer(config, layer, DeepseekRouter::kV3);
  spec.modules.push_back(
      other("self_attn.indexer.wq_b", indexer.heads * indexer.width, config.mla->q_lora_rank));
  spec.modules.push_back(other("self_attn.indexer.wk", indexer.width, config.hidden_size));
  spec.modules.push_back(other_vector("self_attn.indexer.k_norm", indexer.width));
  spec.modules.push_back(other_vector("self_attn.indexer.k_norm", indexer.width, "bias"));
  spec.modules.push_back(
      other("self_attn.indexer.weights_proj", indexer.heads, config.hidden_size));
  return spec;
}

}  // namespace

const Family kDeepseekV32 = {
    .model_type = "deepseek_v32",
    .description = "DeepSeek V3.2 decoder: V3's with an indexer of attention's tokens",
    .layer_class = "transformers.models.deepseek_v32.modeling_deepseek_v32.DeepseekV32DecoderLayer",
    .keys = {.head_dim = "qk_rope_head_dim"},
    .defaults = {.max_position_embeddings = 163840, .head_dim = 64},
    .runs = false,
    .rotary = false,
    .read_config = read_config,
    .describe_layer = describe_layer,
};

}  // namespace am::model
