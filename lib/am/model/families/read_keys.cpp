// Reads config keys that several families share, other than those of experts and windows.
#include "am/base/text.h"
#include "am/model/families/blocks.h"
#include "am/model/rope_config.h"

namespace am::model {
namespace {

// Range of legal factors.
constexpr double kLeast = 1e-9;
constexpr double kMost = 1e9;

}  // namespace

void set_rotated_part(ConfigReader& reader, ModelConfig& config, double part) {
  if (!has_rope_key(reader, "partial_rotary_factor")) config.rope.rotated_part = part;
}

std::optional<int64_t> read_rotary_dim(ConfigReader& reader, const ModelConfig& config) {
  constexpr std::string_view kKey = "rotary_dim";
  const auto rotated = reader.integer(kKey, 2, config.head_dim);
  if (rotated.has_value() && *rotated % 2 != 0) {
    reader.error(
        "model.heads", kKey,
        cat("the rotary embedding rotates pairs of values, but ", kKey, " = ", *rotated, " is odd"),
        "give an even number");
  }
  return rotated;
}

void rotate_windowed_layers(ModelConfig& config) {
  for (int64_t layer = 0; layer < config.num_hidden_layers; ++layer) {
    config.rotated_layers.push_back(window_of(config, layer).has_value());
  }
}

void rotate_no_layer(ModelConfig& config) {
  config.rotated_layers.assign(static_cast<size_t>(config.num_hidden_layers), false);
}

void require_boolean(ConfigReader& reader, std::string_view key, bool only,
                     const std::string& message) {
  if (reader.boolean(key).value_or(only) == only) return;
  reader.error("model.value", key, message,
               cat("only ", key, " = ", only ? "true" : "false", " can be planned"));
}

std::optional<double> read_switchable(ConfigReader& reader, std::string_view key,
                                      std::optional<double> fallback) {
  return reader.has(key) ? reader.number(key, kLeast, kMost) : fallback;
}

void read_granite_factors(ConfigReader& reader, ModelConfig& config) {
  const auto factor = [&](std::string_view key) {
    return reader.number(key, kLeast, kMost).value_or(1.0);
  };
  config.embedding_scale = factor("embedding_multiplier");
  config.attention_scale = factor("attention_multiplier");
  config.residual_scale = factor("residual_multiplier");
  config.logit_scale = 1.0 / factor("logits_scaling");
}

}  // namespace am::model
