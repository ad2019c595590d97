#include "am/model/config.h"

#include "am/base/error.h"
#include "am/base/file.h"
#include "am/base/json.h"
#include "am/base/text.h"
#include "am/model/config_reader.h"
#include "am/model/family.h"
#include "am/model/rope_config.h"

namespace am::model {
namespace {

// Limits far above any real model. They keep every later product, byte counts of all states
// included, inside 63 bits.
constexpr int64_t kMaxVocab = int64_t{1} << 26;
constexpr int64_t kMaxHidden = int64_t{1} << 20;
constexpr int64_t kMaxIntermediate = int64_t{1} << 22;
constexpr int64_t kMaxLayers = int64_t{1} << 14;
constexpr int64_t kMaxHeads = int64_t{1} << 16;
constexpr int64_t kMaxHeadDim = int64_t{1} << 14;
constexpr int64_t kMaxPositions = int64_t{1} << 40;

const Family* read_family(ConfigReader& reader, ModelConfig& config) {
  const std::string known = join(family_names(), ", ");
  if (reader.raw("model_type").is_null()) {
    reader.error("model.key", "model_type", "the config has no model_type",
                 cat("known model types: ", known));
    return nullptr;
  }
  const auto model_type = reader.text("model_type");
  if (!model_type.has_value()) return nullptr;
  config.model_type = *model_type;
  const Family* family = find_family(*model_type);
  if (family == nullptr) {
    const auto near = nearest(*model_type, family_names());
    reader.error("model.family", "model_type", cat("model_type \"", *model_type, "\" is not known"),
                 near.has_value() ? cat("did you mean \"", *near, "\"? known model types: ", known)
                                  : cat("known model types: ", known));
  }
  return family;
}

void read_sizes(ConfigReader& reader, ModelConfig& config) {
  config.vocab_size = reader.required_integer("vocab_size", 1, kMaxVocab);
  config.hidden_size = reader.required_integer("hidden_size", 1, kMaxHidden);
  config.intermediate_size = reader.required_integer("intermediate_size", 1, kMaxIntermediate);
  config.num_hidden_layers = reader.required_integer("num_hidden_layers", 1, kMaxLayers);
  config.num_attention_heads = reader.required_integer("num_attention_heads", 1, kMaxHeads);
}

void read_key_value_heads(ConfigReader& reader, const Family& family, ModelConfig& config) {
  const int64_t heads = config.num_attention_heads;
  // null means "as many as query heads" to every class; only a missing key takes the class's
  // default.
  const bool missing = !reader.has("num_key_value_heads");
  const int64_t fallback = missing ? family.key_value_heads.value_or(heads) : heads;
  config.num_key_value_heads =
      reader.integer("num_key_value_heads", 1, kMaxHeads).value_or(fallback);
  if (heads == 0 || config.num_key_value_heads == 0) return;
  if (heads % config.num_key_value_heads != 0) {
    reader.error("model.heads", missing ? "num_attention_heads" : "num_key_value_heads",
                 cat("num_key_value_heads = ", config.num_key_value_heads,
                     missing ? " (the default of this model_type)" : "",
                     " does not divide num_attention_heads = ", heads),
                 "every key/value head serves the same number of query heads");
  }
}

void read_head_dim(ConfigReader& reader, const Family& family, ModelConfig& config) {
  const int64_t heads = config.num_attention_heads;
  const auto written = reader.integer("head_dim", 1, kMaxHeadDim);
  if (written.has_value() || family.head_dim.has_value()) {
    config.head_dim = written.has_value() ? *written : *family.head_dim;
  } else if (heads > 0 && config.hidden_size > 0) {
    if (config.hidden_size % heads != 0) {
      reader.error("model.heads", "num_attention_heads",
                   cat("num_attention_heads = ", heads, " does not divide hidden_size = ",
                       config.hidden_size, ", and the config has no head_dim"),
                   "give head_dim, or sizes that divide");
      return;
    }
    config.head_dim = config.hidden_size / heads;
  }
  if (config.head_dim % 2 != 0) {
    reader.error(
        "model.heads", written.has_value() ? "head_dim" : "num_attention_heads",
        cat("the rotary embedding turns pairs, and head_dim = ", config.head_dim, " is odd"));
  }
  if (config.head_dim * heads > kMaxHidden) {
    reader.error(
        "model.value", "num_attention_heads",
        cat("num_attention_heads * head_dim = ", config.head_dim * heads, " is out of range"),
        cat("at most ", kMaxHidden));
  }
}

void read_activation(ConfigReader& reader, ModelConfig& config) {
  config.hidden_act = reader.text("hidden_act").value_or("silu");
  if (config.hidden_act == "swish") config.hidden_act = "silu";  // two names of one function
  if (config.hidden_act != "silu") {
    reader.error("model.activation", "hidden_act",
                 cat("hidden_act \"", config.hidden_act, "\" is not known to these families"),
                 "known: silu");
  }
}

// The checkpoint's values: a hint for people. What is loaded says its own dtype.
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

void read_common(ConfigReader& reader, const Family& family, ModelConfig& config) {
  read_key_value_heads(reader, family, config);
  read_head_dim(reader, family, config);
  config.max_position_embeddings = reader.integer("max_position_embeddings", 1, kMaxPositions)
                                       .value_or(family.max_position_embeddings);
  config.rms_norm_eps = reader.number("rms_norm_eps", 0.0, 1.0).value_or(1e-6);
  config.initializer_range = reader.number("initializer_range", 0.0, 1.0).value_or(0.02);
  config.tie_word_embeddings = reader.boolean("tie_word_embeddings").value_or(false);
  read_activation(reader, config);
  config.rope = read_rope(reader, config.max_position_embeddings);
  read_dtype(reader, config);
}

}  // namespace

std::optional<ModelConfig> parse_config(const std::string& text, const std::string& file,
                                        Diagnostics& found) {
  const auto json = parse_json(text, file, found);
  if (!json.has_value()) return std::nullopt;
  if (!json->is_object()) {
    Span whole;
    whole.file = file;
    found.error("model.type", whole, "a model's config is a JSON object",
                "give the config.json of a Hugging Face model");
    return std::nullopt;
  }
  Diagnostics mine;
  ModelConfig config;
  config.file = file;
  config.text = text;
  ConfigReader reader(*json, config.text, config.file, mine);
  const Family* family = read_family(reader, config);
  if (family != nullptr) {
    read_sizes(reader, config);
    read_common(reader, *family, config);
    family->read_config(reader, config);
  }
  mine.sort();
  found.append(mine);
  if (!mine.ok()) return std::nullopt;
  return config;
}

std::optional<ModelConfig> load_config(const std::filesystem::path& path, Diagnostics& found) {
  std::error_code ignored;
  const bool folder = std::filesystem::is_directory(path, ignored);
  const std::filesystem::path file = folder ? path / "config.json" : path;
  return parse_config(read_file(file), file.string(), found);
}

}  // namespace am::model
