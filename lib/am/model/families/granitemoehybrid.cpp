// Granite 4: Mamba 2 in most layers, and attention in the others. Every layer has Granite's shared
// experts and, in the models with experts, also routed experts.
#include "am/model/families/blocks.h"
#include "am/model/families/families.h"
#include "am/model/families/granite.h"
#include "am/model/families/mixers.h"

namespace am::model {
namespace {

// Reads the keys of Granite 4. In a model without routed experts, the shared experts are the MLP.
void read_config(ConfigReader& reader, ModelConfig& config) {
  read_attention_bias(reader, config);
  read_granite_factors(reader, config);
  read_mamba2(reader, config);
  const bool old = reader.raw("layer_types").is_null();
  if (old && reader.raw("layers_block_type").is_null()) {
    config.mixer->layers.assign(static_cast<size_t>(config.num_hidden_layers), true);
  } else {
    read_mixer_layers(reader, config, old ? "layers_block_type" : "layer_types",
                      {"linear_attention", "mamba"}, 1);
  }
  read_granite_experts(reader, config, 1024);
}

LayerSpec describe_layer(const ModelConfig& config, int64_t layer) {
  const bool mixes = has_mixer(config, layer);
  LayerSpec spec = mixes ? start_mixer_layer(config, layer) : start_layer(config, layer);
  if (mixes) {
    add_mamba2(config, spec, "mamba");
  } else {
    add_attention(config, spec);
  }
  add_norms(config, spec, kLlamaNorms);
  if (has_experts(config, layer)) {
    add_granite_experts(config, spec);
  } else {
    add_fused_mlp(config, spec, "shared_mlp.input_linear", "shared_mlp.output_linear");
  }
  return spec;
}

}  // namespace

const Family kGraniteMoeHybrid = {
    .model_type = "granitemoehybrid",
    .description = "Granite 4 decoder: Mamba 2 and attention, routed and shared experts",
    .layer_class =
        "transformers.models.granitemoehybrid.modeling_granitemoehybrid."
        "GraniteMoeHybridDecoderLayer",
    .defaults = {.max_position_embeddings = 2048},
    .runs = false,
    .read_config = read_config,
    .describe_layer = describe_layer,
};

}  // namespace am::model
