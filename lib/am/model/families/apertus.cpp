// Apertus: the Llama decoder with norms over query and key heads, and an MLP without a gate, whose
// activation (xIELU) has two trained numbers.
#include "am/base/text.h"
#include "am/model/families/blocks.h"
#include "am/model/families/families.h"

namespace am::model {
namespace {

// Returns the rotary embedding that applies if the config has neither rope_scaling nor
// rope_parameters.
RopeConfig default_rope() {
  RopeConfig rope;
  rope.type = "llama3";
  rope.theta = 12000000.0;
  rope.factor = 8.0;
  rope.original_max_position_embeddings = 8192;
  return rope;
}

void read_config(ConfigReader& reader, ModelConfig& config) {
  read_attention_bias(reader, config);
  config.qk_norm = true;
  config.gated_mlp = false;
  const bool says_rope =
      !reader.raw("rope_scaling").is_null() || !reader.raw("rope_parameters").is_null();
  if (!says_rope) config.rope = default_rope();
}

// Reads the keys of Apertus 1.5. A head over a part of the vocabulary cannot be planned.
void read_text_config(ConfigReader& reader, ModelConfig& config) {
  read_config(reader, config);
  constexpr std::string_view kKey = "output_vocab_size";
  const auto outputs = reader.integer(kKey, 1, int64_t{1} << 26);
  if (!outputs || *outputs == config.vocab_size) return;
  reader.error("model.value", kKey, "a head over a part of the vocabulary is not supported",
               cat(kKey, " = null, or ", config.vocab_size, " (vocab_size)"));
}

LayerSpec describe_layer(const ModelConfig& config, int64_t layer) {
  constexpr std::array<NamedNorm, 2> kNorms = {
      {{Role::kInputNorm, "attention_layernorm"},
       {Role::kPreFeedForwardNorm, "feedforward_layernorm"}}};
  LayerSpec spec = start_layer(config, layer);
  add_attention(config, spec);
  add_plain_mlp(config, spec, "mlp.up_proj", "mlp.down_proj");
  if (config.hidden_act == "xielu") {
    spec.modules.push_back(other_vector("mlp.act_fn", 1, "alpha_p"));
    spec.modules.push_back(other_vector("mlp.act_fn", 1, "alpha_n"));
  }
  add_norms(config, spec, kNorms);
  return spec;
}

constexpr ConfigDefaults kDefaults = {.max_position_embeddings = 65536,
                                      .norm_eps = 1e-5,
                                      .rope_theta = 12000000.0,
                                      .hidden_act = "xielu",
                                      .pad_token_id = 3};

}  // namespace

const Family kApertus = {
    .model_type = "apertus",
    .description = "Apertus decoder: q_norm and k_norm, a plain MLP with xIELU",
    .layer_class = "transformers.models.apertus.modeling_apertus.ApertusDecoderLayer",
    .defaults = kDefaults,
    .runs = false,
    .read_config = read_config,
    .describe_layer = describe_layer,
};

const Family kApertus15Text = {
    .model_type = "apertus1p5_text",
    .description = "Apertus 1.5 decoder: Apertus's",
    .layer_class = "transformers.models.apertus1p5.modeling_apertus1p5.Apertus1p5TextDecoderLayer",
    .defaults = kDefaults,
    .runs = false,
    .read_config = read_text_config,
    .describe_layer = describe_layer,
};

}  // namespace am::model
