// OLMo Hybrid: linear attention in most layers, whose norms precede it and the MLP, and OLMo 2's
// layer in the others. Parameters have the names of transformers' model; files on the hub have
// other names for the norms of layers with linear attention, and three convolutions instead of one.
#include <algorithm>

#include "am/model/families/blocks.h"
#include "am/model/families/families.h"
#include "am/model/families/mixers.h"

namespace am::model {
namespace {

// Reads the keys of OLMo Hybrid. Without layer_types at least the last layer has attention. If
// rope_parameters has no rope_theta, there is no RoPE.
void read_config(ConfigReader& reader, ModelConfig& config) {
  read_attention_bias(reader, config);
  config.qk_norm = true;
  config.qk_norm_spans_heads = true;
  const Json& rope = reader.raw("rope_parameters");
  if (rope.is_object() && rope.value("rope_theta", Json()).is_null()) rotate_no_layer(config);
  const int64_t heads = config.num_attention_heads;
  read_delta_net(reader, config, {.key_heads = heads, .heads = heads, .key_width = 0, .width = 0});
  std::vector<bool>& mixes = config.mixer->layers;
  const bool all = std::find(mixes.begin(), mixes.end(), false) == mixes.end();
  if (all && !mixes.empty() && reader.raw("layer_types").is_null()) mixes.back() = false;
}

LayerSpec describe_layer(const ModelConfig& config, int64_t layer) {
  if (!has_mixer(config, layer)) return post_norm_layer(config, layer);
  const MixerConfig& mixer = *config.mixer;
  const int64_t hidden = config.hidden_size;
  const int64_t values = mixer.heads * mixer.width;
  const int64_t keys = mixer.key_heads * mixer.key_width;
  LayerSpec spec = start_mixer_layer(config, layer);
  const auto project = [&](std::string_view name, int64_t width) {
    spec.modules.push_back(other(name, width, hidden));
  };
  project("linear_attn.q_proj", keys);
  project("linear_attn.k_proj", keys);
  project("linear_attn.v_proj", values);
  project("linear_attn.a_proj", mixer.heads);
  project("linear_attn.b_proj", mixer.heads);
  project("linear_attn.g_proj", values);
  add_delta_net(config, spec, "linear_attn.o_norm", "linear_attn.o_proj");
  add_gated_mlp(config, spec);
  add_norms(config, spec, kLlamaNorms);
  return spec;
}

}  // namespace

const Family kOlmoHybrid = {
    .model_type = "olmo_hybrid",
    .description = "OLMo Hybrid decoder: linear attention, and OLMo 2's layers",
    .layer_class =
        "transformers.models.olmo_hybrid.modeling_olmo_hybrid.OlmoHybridAttentionDecoderLayer",
    .defaults = {.max_position_embeddings = 65536, .pad_token_id = 100277},
    .runs = false,
    .read_config = read_config,
    .describe_layer = describe_layer,
};

}  // namespace am::model
