#include "am/model/config.h"

#include <algorithm>
#include <array>
#include <utility>

#include "am/base/error.h"
#include "am/base/file.h"
#include "am/base/json.h"
#include "am/base/text.h"
#include "am/model/config_common.h"
#include "am/model/config_reader.h"
#include "am/model/families/blocks.h"
#include "am/model/family.h"
#include "am/model/llama_shape.h"

namespace am::model {
namespace {

// A kind of multimodal config whose `text_config` can be read. `text_type` is the model_type of the
// text part if text_config contains no model_type.
struct Wrapper {
  std::string_view model_type;
  std::string_view text_type;
};
constexpr std::array<Wrapper, 10> kWrappers = {{{"gemma3", "gemma3_text"},
                                                {"paligemma", "gemma"},
                                                {"llava", "llama"},
                                                {"llava_next", "llama"},
                                                {"idefics3", "llama"},
                                                {"smolvlm", "llama"},
                                                {"mistral3", "mistral"},
                                                {"llama4", "llama4_text"},
                                                {"qwen3_5", "qwen3_5_text"},
                                                {"qwen3_5_moe", "qwen3_5_moe_text"}}};

const Wrapper* find_wrapper(std::string_view model_type) {
  const auto* const found = std::find_if(kWrappers.begin(), kWrappers.end(), [&](const Wrapper& w) {
    return w.model_type == model_type;
  });
  return found == kWrappers.end() ? nullptr : found;
}

std::string known_families() { return cat("known model types: ", join(family_names(), ", ")); }

std::string family_help(const std::string& model_type) {
  const auto near = nearest(model_type, family_names());
  return near.has_value() ? cat("did you mean \"", *near, "\"? ", known_families())
                          : known_families();
}

// Sets config.model_type, and returns the family whose functions read the config; null after an
// error. A config without a model_type gets `fallback`; if `fallback` is empty, a missing
// model_type is an error.
const Family* read_family(ConfigReader& reader, std::string_view fallback, ModelConfig& config) {
  const std::string model_type(fallback);
  if (reader.raw("model_type").is_null() && fallback.empty()) {
    reader.error("model.key", "model_type", "the config has no model_type", known_families());
    return nullptr;
  }
  const bool written = !reader.raw("model_type").is_null();
  config.model_type = written ? reader.text("model_type").value_or("") : model_type;
  if (config.model_type.empty()) {
    if (reader.raw("model_type") == "") {
      reader.error("model.family", "model_type", "model_type is empty", known_families());
    }
    return nullptr;
  }
  const Family* family = find_family(config.model_type);
  if (family != nullptr) return family;
  const std::string reason = why_not_llama(reader);
  if (!reason.empty()) {
    reader.error("model.family", "model_type",
                 cat("model_type \"", config.model_type,
                     "\" is not known, and it cannot be planned as Llama: ", reason),
                 family_help(config.model_type));
    return nullptr;
  }
  reader.warning("model.family", "model_type",
                 cat("model_type \"", config.model_type,
                     "\" is not known: it is planned as a Llama decoder with the config's sizes "
                     "(RMSNorm, q, k, v and o projections, gate, up and down)"),
                 family_help(config.model_type));
  return &family_of(config);
}

// Reads the sliding window of a model that is planned as Llama because its model_type is unknown.
// The window applies to the layers that layer_types marks "sliding_attention" or, without
// layer_types, to all layers.
void read_unknown_window(ConfigReader& reader, ModelConfig& config) {
  if (!reader.boolean("use_sliding_window").value_or(true)) return;
  read_window(reader, config, 0);
  if (!reader.raw("layer_types").is_null()) read_window_layers(reader, config, 1);
}

void read_model(ConfigReader& reader, std::string_view fallback, ModelConfig& config) {
  const Family* family = read_family(reader, fallback, config);
  if (family == nullptr) return;
  read_sizes(reader, *family, /*class_sizes=*/!fallback.empty(), config);
  read_common(reader, *family, config);
  family->read_config(reader, config);
  if (find_family(config.model_type) == nullptr) read_unknown_window(reader, config);
}

// Reads the text part of a multimodal config. Reads tie_word_embeddings from the outer config if
// text_config does not contain this key.
void read_text_part(ConfigReader& reader, const Wrapper& wrapper, ModelConfig& config) {
  if (!reader.raw("text_config").is_object()) {
    reader.error(
        "model.type", "text_config",
        cat("a ", wrapper.model_type, " config must have a text_config that is an object"));
    return;
  }
  config.wrapped_in = wrapper.model_type;
  ConfigReader text = reader.nested("text_config");
  read_model(text, wrapper.text_type, config);
  if (!text.has("tie_word_embeddings")) {
    const auto tied = reader.boolean("tie_word_embeddings");
    if (tied.has_value()) config.tie_word_embeddings = *tied;
  }
  reader.warning("model.text_part", "model_type",
                 cat("only the text part of this ", wrapper.model_type, " config is planned, as ",
                     config.model_type, ": the vision part and the projector are not counted"),
                 cat("sizes that text_config leaves out are those of ", wrapper.text_type,
                     "'s configuration class"));
}

}  // namespace

std::optional<int64_t> window_of(const ModelConfig& config, int64_t layer) {
  const auto at = static_cast<size_t>(layer);
  const bool windowed = config.window_layers.empty()
                            ? layer >= config.window_first_layer
                            : at < config.window_layers.size() && config.window_layers[at];
  return windowed ? config.sliding_window : std::nullopt;
}

bool has_experts(const ModelConfig& config, int64_t layer) {
  const auto at = static_cast<size_t>(layer);
  return config.moe.has_value() && at < config.moe->layers.size() && config.moe->layers[at];
}

std::optional<ModelConfig> parse_config(const std::string& text, const std::string& file,
                                        Diagnostics& found) {
  const auto json = parse_json(text, file, found);
  if (!json.has_value()) return std::nullopt;
  if (!json->is_object()) {
    Span whole;
    whole.file = file;
    found.error("model.type", whole, "the model's config is not a JSON object",
                "give the config.json of a Hugging Face model");
    return std::nullopt;
  }
  Diagnostics mine;
  ModelConfig config;
  config.file = file;
  config.text = text;
  ConfigReader reader(*json, config.text, config.file, mine);
  const Json& model_type = reader.raw("model_type");
  const Wrapper* wrapper =
      model_type.is_string() ? find_wrapper(model_type.get<std::string>()) : nullptr;
  if (wrapper != nullptr) {
    read_text_part(reader, *wrapper, config);
  } else {
    read_model(reader, {}, config);
  }
  if (mine.ok()) check_extent(reader, config);
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
