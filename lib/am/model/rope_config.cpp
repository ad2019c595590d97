#include "am/model/rope_config.h"

#include <utility>

#include "am/base/text.h"

namespace am::model {
namespace {

constexpr double kMaxTheta = 1e12;
constexpr double kMaxFactor = 1e6;

// The key that holds the object with the rotary embedding's details; transformers lets a non-empty
// `rope_scaling` win over `rope_parameters`.
std::string_view details_key(const ConfigReader& reader) {
  for (const std::string_view key : {"rope_scaling", "rope_parameters"}) {
    const Json& value = reader.raw(key);
    if (!value.is_null() && !value.empty()) return key;
  }
  return {};
}

double required_number(ConfigReader& reader, std::string_view key, double low, double high) {
  if (reader.raw(key).is_null()) {
    reader.error("model.key", key, cat("the rotary embedding needs ", key));
    return 1.0;
  }
  return reader.number(key, low, high).value_or(1.0);
}

void read_llama3(ConfigReader& details, int64_t max_position_embeddings, RopeConfig& rope) {
  rope.factor = required_number(details, "factor", 1.0, kMaxFactor);
  rope.low_freq_factor = required_number(details, "low_freq_factor", 0.0, kMaxFactor);
  rope.high_freq_factor = required_number(details, "high_freq_factor", 0.0, kMaxFactor);
  rope.original_max_position_embeddings =
      details.integer("original_max_position_embeddings", 1, int64_t{1} << 40)
          .value_or(max_position_embeddings);
  if (rope.high_freq_factor <= rope.low_freq_factor) {
    details.error("model.rope", "high_freq_factor",
                  cat("high_freq_factor = ", rope.high_freq_factor,
                      " must be above low_freq_factor = ", rope.low_freq_factor));
  }
}

void read_partial(ConfigReader& reader, RopeConfig& rope) {
  rope.rotated_part = reader.number("partial_rotary_factor", 0.0, 1.0).value_or(rope.rotated_part);
}

// The object with the details of one rope.
void read_details(ConfigReader& details, int64_t max_position_embeddings, RopeConfig& rope) {
  read_partial(details, rope);
  rope.theta = details.number("rope_theta", 1.0, kMaxTheta).value_or(rope.theta);
  const std::string_view type_key = details.raw("rope_type").is_null() ? "type" : "rope_type";
  rope.type = details.text(type_key).value_or("default");
  if (rope.type == "linear") {
    rope.factor = required_number(details, "factor", 1.0, kMaxFactor);
  } else if (rope.type == "llama3") {
    read_llama3(details, max_position_embeddings, rope);
  }
}

}  // namespace

RopeConfig read_rope(ConfigReader& reader, int64_t max_position_embeddings, double default_theta) {
  RopeConfig rope;
  rope.theta = reader.number("rope_theta", 1.0, kMaxTheta).value_or(default_theta);
  read_partial(reader, rope);
  const std::string_view key = details_key(reader);
  if (key.empty()) return rope;
  if (!reader.raw(key).is_object()) {
    reader.error("model.type", key, cat(key, " must be an object or null"));
    return rope;
  }
  ConfigReader details = reader.nested(key);
  if (details.has("full_attention") || details.has("sliding_attention")) {
    rope.type = kRopePerLayerType;
    return rope;
  }
  read_details(details, max_position_embeddings, rope);
  return rope;
}

void read_layer_ropes(ConfigReader& reader, ModelConfig& config) {
  constexpr double kLocalTheta = 10000.0;
  config.local_rope = RopeConfig{
      .theta = reader.number("rope_local_base_freq", 1.0, kMaxTheta).value_or(kLocalTheta)};
  if (config.rope.type != kRopePerLayerType) return;
  config.rope = {.theta = config.rope.theta, .rotated_part = config.rope.rotated_part};
  const ConfigReader by_type = reader.nested(details_key(reader));
  for (auto& [type, rope] :
       {std::pair{"full_attention", &config.rope}, {"sliding_attention", &*config.local_rope}}) {
    if (!by_type.raw(type).is_object()) continue;
    ConfigReader details = by_type.nested(type);
    read_details(details, config.max_position_embeddings, *rope);
  }
}

}  // namespace am::model
