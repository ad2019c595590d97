// DeepSeek V3.2 and GLM-5: DeepSeek V3 with an indexer, which chooses the tokens that attention
// reads, in each layer or (GLM-5) in some layers. Attention is planned as if it read all tokens.
#include <algorithm>
#include <string>
#include <utility>

#include "am/base/text.h"
#include "am/model/families/blocks.h"
#include "am/model/families/deepseek.h"
#include "am/model/families/families.h"
#include "am/model/families/mixers.h"

namespace am::model {
namespace {

constexpr int64_t kMaxSize = int64_t{1} << 16;

// Reads the keys of the layers' feed-forward, and of the indexer. The indexer reads the low-rank
// vector of the queries. `heads`: default number of the indexer's heads.
void read_indexed(ConfigReader& reader, ModelConfig& config, int64_t heads) {
  if (!reader.raw("mlp_layer_types").is_null()) read_mlp_layer_types(reader, config, 0);
  read_normalisation(reader, config, true);
  read_mtp_layers(reader, config, 0);
  MixerConfig indexer;
  indexer.heads = reader.integer("index_n_heads", 1, kMaxSize).value_or(heads);
  indexer.width = reader.integer("index_head_dim", 1, kMaxSize).value_or(128);
  indexer.layers.assign(static_cast<size_t>(config.num_hidden_layers), true);
  config.mixer = std::move(indexer);
  if (config.mla->q_lora_rank == 0) {
    reader.error("model.value", "q_lora_rank", "the indexer needs low-rank queries",
                 "give q_lora_rank a number");
  }
}

void read_config(ConfigReader& reader, ModelConfig& config) {
  read_deepseek(reader, config, kDeepseekV3Defaults);
  read_indexed(reader, config, 64);
}

// Reads the layers with an indexer: those that indexer_types marks "full" or index_topk_pattern
// marks "F" or, without these keys, the first `index_skip_topk_offset` layers and then every
// `index_topk_freq`-th layer. Other layers read the tokens that the previous indexer chose.
void read_indexed_layers(ConfigReader& reader, ModelConfig& config) {
  const bool typed = !reader.raw("indexer_types").is_null();
  const std::string_view key = typed ? "indexer_types" : "index_topk_pattern";
  const Json& types = reader.raw(key);
  std::vector<bool>& indexed = config.mixer->layers;
  if (types.is_null()) {
    const int64_t period = reader.integer("index_topk_freq", 0, kMostLayers).value_or(1);
    const int64_t first = reader.integer("index_skip_topk_offset", 0, kMostLayers).value_or(2);
    for (size_t i = 0; i < indexed.size(); ++i) {
      const int64_t after = std::max<int64_t>(static_cast<int64_t>(i) - first + 1, 0);
      indexed[i] = after % std::max<int64_t>(period, 1) == 0;
    }
    return;
  }
  const bool letters = !typed && types.is_string();
  const std::string pattern = letters ? types.get<std::string>() : std::string();
  bool fits = letters ? pattern.size() == indexed.size()
                      : types.is_array() && types.size() == indexed.size();
  for (size_t i = 0; fits && i < indexed.size(); ++i) {
    indexed[i] = letters ? pattern[i] == 'F' : types[i] == "full";
    fits = indexed[i] || (letters ? pattern[i] == 'S' : types[i] == "shared");
  }
  if (fits) return;
  reader.error(
      "model.value", key, cat(key, " must name a type for each of the ", indexed.size(), " layers"),
      "known: \"full\", \"shared\"; index_topk_pattern may also be a text of the letters F "
      "and S");
}

void read_glm(ConfigReader& reader, ModelConfig& config) {
  read_latent_attention(reader, config,
                        {.query_rank = 2048, .plain_width = 192, .value_width = 256});
  DeepseekDefaults defaults = kDeepseekV3Defaults;
  defaults.groups = defaults.topk_groups = 1;
  read_deepseek_experts(reader, config, defaults);
  read_indexed(reader, config, 32);
  read_indexed_layers(reader, config);
}

LayerSpec describe_layer(const ModelConfig& config, int64_t layer) {
  const MixerConfig& indexer = *config.mixer;
  LayerSpec spec = deepseek_layer(config, layer, DeepseekRouter::kV3);
  if (!has_mixer(config, layer)) return spec;
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

const Family kGlmMoeDsa = {
    .model_type = "glm_moe_dsa",
    .description = "GLM-5 decoder: DeepSeek V3.2's, whose layers may share an indexer's tokens",
    .layer_class = "transformers.models.glm_moe_dsa.modeling_glm_moe_dsa.GlmMoeDsaDecoderLayer",
    .keys = {.head_dim = "qk_rope_head_dim"},
    .defaults = {.max_position_embeddings = 202752, .head_dim = 64, .norm_eps = 1e-5},
    .runs = false,
    .rotary = false,
    .read_config = read_glm,
    .describe_layer = describe_layer,
};

}  // namespace am::model
