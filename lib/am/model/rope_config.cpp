#include "am/model/rope_config.h"

#include <cmath>
#include <cstdint>
#include <iterator>
#include <utility>
#include <vector>

#include "am/base/text.h"

namespace am::model {
namespace {

constexpr double kMaxFactor = 1e6;

// Returns the key of the object that describes the rotary embedding, or an empty string if the
// config has no such object. As in transformers, a non-empty `rope_scaling` takes precedence over
// `rope_parameters`.
std::string_view details_key(const ConfigReader& reader) {
  for (const std::string_view key : {"rope_scaling", "rope_parameters"}) {
    const Json& value = reader.raw(key);
    if (!value.is_null() && !value.empty()) return key;
  }
  return {};
}

double required_number(ConfigReader& reader, std::string_view key, double low, double high) {
  if (reader.raw(key).is_null()) {
    reader.error("model.key", key, cat("the rotary embedding needs the key ", key));
    return 1.0;
  }
  return reader.number(key, low, high).value_or(1.0);
}

// Returns original_max_position_embeddings: the value in the config (`outer`) or, if absent, in the
// object that describes the rotary embedding (`details`), as in transformers' class of Phi-3. If
// both are absent, returns `max_position_embeddings`.
int64_t read_original_length(ConfigReader& outer, ConfigReader& details,
                             int64_t max_position_embeddings) {
  constexpr std::string_view kKey = "original_max_position_embeddings";
  constexpr int64_t kMost = int64_t{1} << 40;
  if (const auto own = outer.integer(kKey, 1, kMost)) return *own;
  return details.integer(kKey, 1, kMost).value_or(max_position_embeddings);
}

void read_llama3(ConfigReader& details, RopeConfig& rope) {
  rope.factor = required_number(details, "factor", 1.0, kMaxFactor);
  rope.low_freq_factor = required_number(details, "low_freq_factor", 0.0, kMaxFactor);
  rope.high_freq_factor = required_number(details, "high_freq_factor", 0.0, kMaxFactor);
  if (rope.high_freq_factor <= rope.low_freq_factor) {
    details.error("model.rope", "high_freq_factor",
                  cat("high_freq_factor = ", rope.high_freq_factor,
                      " must be above low_freq_factor = ", rope.low_freq_factor));
  }
}

// Reads the scaling factor and the attention factor of yarn or longrope. If the scaling factor is
// missing, it is max_position_embeddings divided by the original length.
void read_extension(ConfigReader& details, int64_t max_position_embeddings, RopeConfig& rope) {
  const double implied = static_cast<double>(max_position_embeddings) /
                         static_cast<double>(rope.original_max_position_embeddings);
  rope.factor = details.number("factor", 1e-6, kMaxFactor).value_or(implied);
  rope.attention_factor = details.number("attention_factor", 0.0, kMaxFactor);
}

void read_yarn(ConfigReader& details, RopeConfig& rope) {
  // As in transformers, null and 0 select the default.
  const auto or_class = [&](std::string_view key, double of_class) {
    const double value = details.number(key, 0.0, kMaxFactor).value_or(0.0);
    return value == 0.0 ? of_class : value;
  };
  rope.beta_fast = or_class("beta_fast", rope.beta_fast);
  rope.beta_slow = or_class("beta_slow", rope.beta_slow);
  rope.mscale = or_class("mscale", 0.0);
  rope.mscale_all_dim = or_class("mscale_all_dim", 0.0);
  rope.truncate = details.boolean("truncate").value_or(true);
}

// Reads a list of longrope's frequency divisors: `count` positive numbers, one per frequency. Adds
// an error and returns an empty list if the value is anything else.
std::vector<double> read_factors(ConfigReader& details, std::string_view key, int64_t count) {
  const Json& list = details.raw(key);
  std::vector<double> factors;
  if (list.is_array()) {
    for (const Json& each : list) {
      if (each.is_number() && each.get<double>() > 0.0) factors.push_back(each.get<double>());
    }
  }
  if (!list.is_array() || std::ssize(factors) != std::ssize(list) || std::ssize(factors) != count) {
    details.error("model.rope", key,
                  cat("longrope needs ", key, " as a list of ", count,
                      " numbers above 0: one for each rotated pair of values"));
    factors.clear();
  }
  return factors;
}

void read_partial(ConfigReader& reader, RopeConfig& rope) {
  rope.rotated_part = reader.number("partial_rotary_factor", 0.0, 1.0).value_or(rope.rotated_part);
}

// Reads one rotary embedding from the object `details` in the config `outer`.
void read_details(ConfigReader& outer, ConfigReader& details, const ModelConfig& config,
                  RopeConfig& rope) {
  read_partial(details, rope);
  rope.theta = details.number("rope_theta", 1.0, kMaxTheta).value_or(rope.theta);
  const std::string_view type_key = details.raw("rope_type").is_null() ? "type" : "rope_type";
  rope.type = details.text(type_key).value_or("default");
  // The first config files of Phi-3 call longrope "su" or "yarn"; transformers' class of Phi-3
  // supports no other scaling.
  const bool phi3 = config.model_type == "phi3" && (rope.type == "su" || rope.type == "yarn");
  if (phi3) rope.type = "longrope";
  if (rope.type == "linear") rope.factor = required_number(details, "factor", 1.0, kMaxFactor);
  const bool extends = rope.type == "yarn" || rope.type == "longrope";
  if (!extends && rope.type != "llama3") return;
  rope.original_max_position_embeddings =
      read_original_length(outer, details, config.max_position_embeddings);
  if (rope.type == "llama3") return read_llama3(details, rope);
  read_extension(details, config.max_position_embeddings, rope);
  if (rope.type == "yarn") return read_yarn(details, rope);
  const int64_t pairs = rotated_width(rope, config.head_dim) / 2;
  rope.short_factor = read_factors(details, "short_factor", pairs);
  rope.long_factor = read_factors(details, "long_factor", pairs);
}

}  // namespace

RopeConfig read_rope(ConfigReader& reader, const ModelConfig& config, double default_theta) {
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
  read_details(reader, details, config, rope);
  return rope;
}

bool has_rope_key(ConfigReader& reader, std::string_view key) {
  if (reader.has(key)) return true;
  const std::string_view object = details_key(reader);
  return !object.empty() && reader.raw(object).is_object() && reader.nested(object).has(key);
}

std::optional<double> rope_number(ConfigReader& reader, std::string_view key, double low,
                                  double high) {
  const std::string_view object = details_key(reader);
  if (object.empty() || !reader.raw(object).is_object()) return std::nullopt;
  return reader.nested(object).number(key, low, high);
}

void read_layer_ropes(ConfigReader& reader, ModelConfig& config, double local_theta) {
  config.local_rope = RopeConfig{.theta = local_theta};
  if (config.rope.type != kRopePerLayerType) return;
  config.rope = {.theta = config.rope.theta, .rotated_part = config.rope.rotated_part};
  const ConfigReader by_type = reader.nested(details_key(reader));
  for (auto& [type, rope] :
       {std::pair{"full_attention", &config.rope}, {"sliding_attention", &*config.local_rope}}) {
    if (!by_type.raw(type).is_object()) continue;
    ConfigReader details = by_type.nested(type);
    read_details(reader, details, config, *rope);
  }
}

double yarn_mscale(double factor, double mscale) {
  return factor <= 1.0 ? 1.0 : 0.1 * mscale * std::log(factor) + 1.0;
}

double attention_factor(const RopeConfig& rope) {
  if (rope.attention_factor.has_value()) return *rope.attention_factor;
  if (rope.type == "yarn") {
    const bool both = rope.mscale != 0.0 && rope.mscale_all_dim != 0.0;
    return both ? yarn_mscale(rope.factor, rope.mscale) /
                      yarn_mscale(rope.factor, rope.mscale_all_dim)
                : yarn_mscale(rope.factor, 1.0);
  }
  if (rope.type != "longrope" || rope.factor <= 1.0) return 1.0;
  const auto original = static_cast<double>(rope.original_max_position_embeddings);
  return std::sqrt(1.0 + std::log(rope.factor) / std::log(original));
}

int64_t rotated_width(const RopeConfig& rope, int64_t head_dim) {
  return std::llround(std::floor(static_cast<double>(head_dim) * rope.rotated_part));
}

}  // namespace am::model
