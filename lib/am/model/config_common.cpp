#include "am/model/config_common.h"

#include "am/base/text.h"
#include "am/base/units.h"
#include "am/model/rope_config.h"
#include "am/model/spec.h"

namespace am::model {
namespace {

// Largest accepted values, far above those of any real model. With these limits and check_extent(),
// all products that are computed later, such as bytes of optimizer states, fit in 63 bits.
constexpr int64_t kMaxVocab = int64_t{1} << 26;
constexpr int64_t kMaxHidden = int64_t{1} << 20;
constexpr int64_t kMaxIntermediate = int64_t{1} << 22;
constexpr int64_t kMaxLayers = 10000;
constexpr int64_t kMaxHeads = int64_t{1} << 16;
constexpr int64_t kMaxHeadDim = int64_t{1} << 14;
constexpr int64_t kMaxPositions = int64_t{1} << 40;
// Largest accepted number of learned positions. It equals the limit of the vocabulary, because
// positions are also rows of an embedding table.
constexpr int64_t kMaxLearnedPositions = int64_t{1} << 26;
constexpr int64_t kMaxTensors = 500000;
constexpr double kMaxParameters = 1e17;

void read_key_value_heads(ConfigReader& reader, const Family& family, ModelConfig& config) {
  const int64_t heads = config.num_attention_heads;
  const std::string_view key = family.keys.key_value_heads;
  // transformers' configuration classes use the number of query heads if the key is null, and the
  // default of the class if the key is missing.
  const bool missing = !reader.has(key);
  const int64_t fallback = missing ? family.defaults.key_value_heads.value_or(heads) : heads;
  config.num_key_value_heads = reader.integer(key, 1, kMaxHeads).value_or(fallback);
  if (heads == 0 || config.num_key_value_heads == 0) return;
  if (heads % config.num_key_value_heads != 0) {
    reader.error("model.heads", missing ? family.keys.heads : key,
                 cat(key, " = ", config.num_key_value_heads,
                     missing ? " (the default of this model_type)" : "", " does not divide ",
                     family.keys.heads, " = ", heads),
                 "set it to a divisor: every key/value head serves the same number of query heads");
  }
}

void read_head_dim(ConfigReader& reader, const Family& family, ModelConfig& config) {
  const int64_t heads = config.num_attention_heads;
  const std::string_view heads_key = family.keys.heads;
  const auto written = reader.integer(family.keys.head_dim, 1, kMaxHeadDim);
  if (written.has_value() || family.defaults.head_dim.has_value()) {
    config.head_dim = written.has_value() ? *written : *family.defaults.head_dim;
  } else if (heads > 0 && config.hidden_size > 0) {
    if (config.hidden_size % heads != 0) {
      reader.error("model.heads", heads_key,
                   cat(heads_key, " = ", heads, " does not divide ", family.keys.hidden_size, " = ",
                       config.hidden_size, ", and the config has no head_dim"),
                   "give head_dim, or choose sizes that divide evenly");
      return;
    }
    config.head_dim = config.hidden_size / heads;
  }
  if (family.rotary && config.head_dim % 2 != 0) {
    reader.error("model.heads", written.has_value() ? family.keys.head_dim : heads_key,
                 cat("the rotary embedding rotates pairs of values, but head_dim = ",
                     config.head_dim, " is odd"));
  }
  if (config.head_dim * heads > kMaxHidden) {
    reader.error("model.value", heads_key,
                 cat(heads_key, " * head_dim = ", config.head_dim * heads, " is out of range"),
                 cat("legal: at most ", kMaxHidden));
  }
}

// Returns the id of the padding token, or nothing if the embedding has no padding token. As in
// nn.Embedding, a negative id counts from the end of the vocabulary. An id outside the vocabulary
// means no padding.
std::optional<int64_t> read_padding(ConfigReader& reader, const Family& family,
                                    int64_t vocab_size) {
  constexpr std::string_view kKey = "pad_token_id";
  auto id =
      reader.has(kKey) ? reader.integer(kKey, -kMaxVocab, kMaxVocab) : family.defaults.pad_token_id;
  if (!family.pads_embedding || !id.has_value()) return std::nullopt;
  if (*id < 0) *id += vocab_size;
  return *id >= 0 && *id < vocab_size ? id : std::nullopt;
}

// Reads the dtype that the config states for the stored weights. This dtype affects no plan: the
// files of the weights state each tensor's dtype, and a plan states its own in model.dtype.
void read_dtype(ConfigReader& reader, ModelConfig& config) {
  const std::string_view key = reader.raw("dtype").is_null() ? "torch_dtype" : "dtype";
  std::string dtype = reader.text(key).value_or("float32");
  if (starts_with(dtype, "torch.")) dtype = dtype.substr(6);
  if (dtype == "float32" || dtype == "bfloat16" || dtype == "float16" || dtype == "float64") {
    config.dtype = dtype;
    return;
  }
  reader.warning("model.value", key, cat(key, " \"", dtype, "\" is not known, and is ignored"),
                 "known: float32, bfloat16, float16, float64");
}

}  // namespace

void read_sizes(ConfigReader& reader, const Family& family, bool class_sizes, ModelConfig& config) {
  const ConfigKeys& keys = family.keys;
  const ConfigDefaults& defaults = family.defaults;
  const auto size = [&](std::string_view key, int64_t high, int64_t of_class) {
    for (const auto& [usual, other] : keys.spellings) {
      if (usual == key && !reader.has(key) && reader.has(other)) {
        return reader.required_integer(other, 1, high);
      }
    }
    if (!class_sizes || of_class == 0) return reader.required_integer(key, 1, high);
    return reader.integer(key, 1, high).value_or(of_class);
  };
  config.vocab_size = size("vocab_size", kMaxVocab, defaults.vocab_size);
  config.hidden_size = size(keys.hidden_size, kMaxHidden, defaults.hidden_size);
  if (defaults.intermediate_ratio > 0) {
    config.intermediate_size = reader.integer(keys.intermediate_size, 1, kMaxIntermediate)
                                   .value_or(defaults.intermediate_ratio * config.hidden_size);
  } else {
    config.intermediate_size =
        size(keys.intermediate_size, kMaxIntermediate, defaults.intermediate_size);
  }
  if (!keys.layers.empty()) {
    config.num_hidden_layers = size(keys.layers, kMaxLayers, defaults.layers);
  }
  config.num_attention_heads = keys.heads.empty() ? 1 : size(keys.heads, kMaxHeads, defaults.heads);
}

void read_common(ConfigReader& reader, const Family& family, ModelConfig& config) {
  const ConfigKeys& keys = family.keys;
  const ConfigDefaults& defaults = family.defaults;
  read_key_value_heads(reader, family, config);
  read_head_dim(reader, family, config);
  const int64_t max_positions =
      family.names.positions.empty() ? kMaxPositions : kMaxLearnedPositions;
  config.max_position_embeddings =
      reader.integer(keys.positions, 1, max_positions).value_or(defaults.max_position_embeddings);
  config.rms_norm_eps = reader.number(keys.norm_eps, 0.0, 1.0).value_or(defaults.norm_eps);
  config.initializer_range =
      reader.number("initializer_range", 0.0, 1.0).value_or(defaults.initializer_range);
  config.tie_word_embeddings =
      reader.boolean("tie_word_embeddings").value_or(defaults.tie_word_embeddings);
  config.hidden_act = reader.text(keys.activation).value_or(std::string(defaults.hidden_act));
  // "swish" and "silu" are two names of the same function.
  if (config.hidden_act == "swish") config.hidden_act = "silu";
  config.bidirectional = reader.boolean("use_bidirectional_attention").value_or(false);
  for (const std::string_view key : {"attention_dropout", "attn_pdrop", "resid_pdrop", "embd_pdrop",
                                     "hidden_dropout", "residual_dropout", "embedding_dropout"}) {
    const double dropout = reader.number(key, 0.0, 1.0).value_or(0.0);
    if (dropout <= 0.0 || config.dropout > 0.0) continue;
    config.dropout_key = key;
    config.dropout = dropout;
  }
  config.padding_id = read_padding(reader, family, config.vocab_size);
  config.rope = read_rope(reader, config, defaults.rope_theta);
  read_dtype(reader, config);
}

void check_extent(ConfigReader& reader, const ModelConfig& config) {
  const Family& family = family_of(config);
  const DecoderSpec spec = describe(config);
  int64_t tensors = 0;
  double parameters = 0.0;
  const auto count = [&](const std::vector<ModuleSpec>& modules) {
    for (const ModuleSpec& module : modules) {
      tensors += module.tensors();
      parameters += static_cast<double>(module.numel());
    }
  };
  count(spec.before);
  for (int64_t layer = 0; layer < config.num_hidden_layers; ++layer) {
    count(spec.layer(layer).modules);
  }
  count(spec.after);
  if (tensors > kMaxTensors) {
    reader.error(
        "model.value", family.keys.layers,
        cat("the model has ", tensors, " tensors, experts counted one by one"),
        cat("at most ", kMaxTensors, " can be planned: use fewer layers or fewer experts"));
  }
  if (parameters > kMaxParameters) {
    reader.error("model.value", family.keys.layers,
                 cat("the model has about ", format_general(parameters, 3), " parameters"),
                 cat("use smaller sizes: at most ", format_general(kMaxParameters, 3),
                     " parameters are supported"));
  }
}

}  // namespace am::model
