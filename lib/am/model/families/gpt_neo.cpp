// GPT-Neo: learned positions, unscaled attention scores, a sliding window in every second layer,
// LayerNorm, and an MLP without a gate.
#include <utility>

#include "am/base/json.h"
#include "am/base/text.h"
#include "am/model/families/blocks.h"
#include "am/model/families/families.h"
#include "am/model/families/gpt.h"

namespace am::model {
namespace {

constexpr int64_t kWindow = 256;
constexpr int64_t kMaxRepeats = int64_t{1} << 20;

// Appends to `windowed`, for each layer that one entry of attention_types describes, whether the
// layer is "local". An entry is a pair [list, count]; the list contains "global" or "local" for
// each layer, and is repeated `count` times. Returns false for any other entry.
bool append_types(const Json& entry, size_t layers, std::vector<bool>& windowed) {
  const bool fits = entry.is_array() && entry.size() == 2 && entry[0].is_array() &&
                    entry[1].is_number_integer() && entry[1] >= 0 && entry[1] <= kMaxRepeats;
  if (!fits) return false;
  for (int64_t i = 0; i < entry[1].get<int64_t>() && windowed.size() <= layers; ++i) {
    for (const Json& type : entry[0]) {
      if (type != "global" && type != "local") return false;
      windowed.push_back(type == "local");
    }
  }
  return true;
}

// Reads which layers have the sliding window: those of type "local" in attention_types.
void read_attention_types(ConfigReader& reader, ModelConfig& config) {
  constexpr std::string_view kKey = "attention_types";
  const auto layers = static_cast<size_t>(config.num_hidden_layers);
  const Json usual = Json::parse(R"([[["global", "local"], 12]])");
  const Json& types = reader.raw(kKey).is_null() ? usual : reader.raw(kKey);
  std::vector<bool> windowed;
  bool fits = types.is_array();
  for (const Json& entry : types) fits = fits && append_types(entry, layers, windowed);
  if (fits && windowed.size() == layers) {
    set_window_layers(config, std::move(windowed));
    return;
  }
  reader.error("model.value", kKey,
               cat("attention_types must describe ", layers, " layers, each global or local"),
               cat("give [[[\"global\", \"local\"], ", layers / 2, "]] for alternating layers"));
}

void read_config(ConfigReader& reader, ModelConfig& config) {
  rotate_no_layer(config);
  config.o_bias = config.mlp_bias = config.norm_bias = true;
  config.gated_mlp = false;
  config.attention_scale = 1.0;
  config.sliding_window = reader.integer("window_size", 1, int64_t{1} << 40).value_or(kWindow);
  read_attention_types(reader, config);
}

LayerSpec describe_layer(const ModelConfig& config, int64_t layer) {
  constexpr std::array<NamedNorm, 1> kFirst = {{{Role::kInputNorm, "ln_1"}}};
  constexpr std::array<NamedNorm, 1> kSecond = {{{Role::kPreFeedForwardNorm, "ln_2"}}};
  LayerSpec spec = start_layer(config, layer);
  add_norms(config, spec, kFirst);
  add_attention(config, spec,
                {.query = "attn.attention.q_proj",
                 .key = "attn.attention.k_proj",
                 .value = "attn.attention.v_proj",
                 .output = "attn.attention.out_proj"});
  add_norms(config, spec, kSecond);
  add_plain_mlp(config, spec, "mlp.c_fc", "mlp.c_proj");
  return spec;
}

}  // namespace

const Family kGptNeo = {
    .model_type = "gpt_neo",
    .description = "GPT-Neo decoder: learned positions, a sliding window in every second layer",
    .layer_class = "transformers.models.gpt_neo.modeling_gpt_neo.GPTNeoBlock",
    .keys = {.layers = "num_layers",
             .heads = "num_heads",
             .key_value_heads = "",
             .head_dim = "",
             .norm_eps = "layer_norm_epsilon",
             .activation = "activation_function",
             .spellings = {{{"num_heads", "num_attention_heads"},
                            {"num_layers", "num_hidden_layers"}}}},
    .defaults = {.max_position_embeddings = 2048,
                 .norm_eps = 1e-5,
                 .tie_word_embeddings = true,
                 .hidden_act = "gelu_new",
                 .intermediate_ratio = 4},
    .runs = false,
    .rotary = false,
    .norm = NormKind::kLayer,
    .pads_embedding = false,
    .names = kGptNames,
    .read_config = read_config,
    .describe_layer = describe_layer,
};

}  // namespace am::model
