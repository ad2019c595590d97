// nanochat: the Llama decoder with an MLP without a gate, a softcap of the logits, and norms
// without weights. Further norms normalise each query and key head after RoPE.
#include "am/model/families/blocks.h"
#include "am/model/families/families.h"

namespace am::model {
namespace {

constexpr double kSoftcap = 15.0;

void read_config(ConfigReader& reader, ModelConfig& config) {
  read_attention_bias(reader, config);
  config.gated_mlp = false;
  config.qk_norm = config.qk_norm_follows_rope = true;
  config.logit_softcap = read_switchable(reader, "final_logit_softcapping", kSoftcap);
}

LayerSpec describe_layer(const ModelConfig& config, int64_t layer) {
  LayerSpec spec = start_layer(config, layer);
  add_attention(config, spec);
  add_plain_mlp(config, spec, "mlp.fc1", "mlp.fc2");
  add_norms(config, spec, kLlamaNorms);
  return spec;
}

}  // namespace

const Family kNanochat = {
    .model_type = "nanochat",
    .description = "nanochat decoder: norms without weights, a plain MLP with squared ReLU",
    .layer_class = "transformers.models.nanochat.modeling_nanochat.NanoChatDecoderLayer",
    .defaults = {.max_position_embeddings = 2048, .hidden_act = "relu2", .pad_token_id = 1},
    .runs = false,
    .norm_weights = false,
    .read_config = read_config,
    .describe_layer = describe_layer,
};

}  // namespace am::model
