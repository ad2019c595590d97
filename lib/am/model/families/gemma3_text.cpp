// Gemma 3 (the text part): Gemma 2 with norms over each query and key head. Every sixth layer has
// full attention, all others a sliding window.
#include "am/model/families/blocks.h"
#include "am/model/families/families.h"
#include "am/model/rope_config.h"

namespace am::model {
namespace {

constexpr int64_t kDefaultWindow = 4096;
constexpr int64_t kDefaultPattern = 6;
constexpr double kLocalTheta = 10000.0;

// Reads the keys of Gemma 3. attn_logit_softcapping, a softcap of the attention scores, is ignored,
// as in transformers' class.
void read_config(ConfigReader& reader, ModelConfig& config) {
  read_attention_bias(reader, config);
  config.hidden_norms = 4;
  config.qk_norm = true;
  config.query_scalar = read_switchable(reader, "query_pre_attn_scalar", 256.0);
  config.logit_softcap = read_switchable(reader, "final_logit_softcapping", std::nullopt);
  read_layer_ropes(reader, config,
                   reader.number("rope_local_base_freq", 1.0, kMaxTheta).value_or(kLocalTheta));
  read_window(reader, config, kDefaultWindow);
  const int64_t pattern =
      reader.integer("sliding_window_pattern", 1, int64_t{1} << 20).value_or(kDefaultPattern);
  read_window_layers(reader, config, pattern);
}

}  // namespace

const Family kGemma3Text = {
    .model_type = "gemma3_text",
    .description =
        "Gemma 3 decoder: Gemma 2's with q_norm and k_norm, full attention in every sixth layer",
    .layer_class = "transformers.models.gemma3.modeling_gemma3.Gemma3DecoderLayer",
    .keys = {.activation = "hidden_activation"},
    .defaults = {.max_position_embeddings = 131072,
                 .key_value_heads = 4,
                 .head_dim = 256,
                 .rope_theta = 1000000.0,
                 .tie_word_embeddings = true,
                 .hidden_act = "gelu_pytorch_tanh",
                 .pad_token_id = 0,
                 .vocab_size = 262208,
                 .hidden_size = 2304,
                 .intermediate_size = 9216,
                 .layers = 26,
                 .heads = 8},
    .norm = NormKind::kRmsPlusOne,
    .scales_embedding = true,
    .read_config = read_config,
    .describe_layer = sandwich_layer,
};

}  // namespace am::model
