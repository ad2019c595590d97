// Reads the rotary embedding (RoPE) from a config.json, in the old and in the new spelling.
#pragma once

#include <optional>
#include <string_view>

#include "am/model/config.h"
#include "am/model/config_reader.h"

namespace am::model {

// Returns the rotary embedding that a config describes, and adds errors for wrong keys.
// `config.model_type`, `config.head_dim` and `config.max_position_embeddings` must be set.
//
// In the old spelling, the config has the key `rope_theta` and an object `rope_scaling`. The type
// is under the object's key `rope_type`, or `type` in the oldest files. In the new spelling, one
// object `rope_parameters` contains all of these keys. If rope_theta is absent, `default_theta`
// applies.
//
// The required keys are `factor` for type linear, `factor`, `low_freq_factor` and
// `high_freq_factor` for llama3, and `short_factor` and `long_factor` for longrope. Factors of
// unknown types are not read. llama3, yarn and longrope also have an original length: the config's
// `original_max_position_embeddings`, otherwise the object's, otherwise
// `config.max_position_embeddings`. If the object has one object for each layer type, the returned
// type is kRopePerLayerType, and read_layer_ropes() reads the rest.
RopeConfig read_rope(ConfigReader& reader, const ModelConfig& config, double default_theta);

inline constexpr double kMaxTheta = 1e12;  // largest legal rope_theta

// Whether the config, or the object in it that describes the rotary embedding, has the key.
bool has_rope_key(ConfigReader& reader, std::string_view key);
// Returns the number under `key` in the object that describes the rotary embedding. Returns nothing
// if the object or the key is absent. Adds an error if the number is not in [low, high].
std::optional<double> rope_number(ConfigReader& reader, std::string_view key, double low,
                                  double high);

// Sets config.rope and config.local_rope for a family whose layers with a sliding window have a
// rotary embedding of their own (local_rope). config.rope must be the result of read_rope(). In the
// new spelling, `rope_parameters` contains one object for each layer type ("full_attention" and
// "sliding_attention"). In the old spelling, local_rope has the theta `local_theta` and no scaling.
void read_layer_ropes(ConfigReader& reader, ModelConfig& config, double local_theta);

// Returns the factor by which cosine and sine are multiplied under yarn (Peng et al., 2023) and
// longrope (Ding et al., 2024): the config's value or, if absent, a value computed from the scaling
// factor. Returns 1 for other types of rotary embedding.
double attention_factor(const RopeConfig& rope);
// Returns 0.1 * mscale * ln(factor) + 1 as yarn defines it, or 1 if factor <= 1.
double yarn_mscale(double factor, double mscale);

// Returns the number of elements of a head that are rotated: floor(head_dim * rotated_part).
int64_t rotated_width(const RopeConfig& rope, int64_t head_dim);

}  // namespace am::model
