// Reads the rotary embedding (RoPE) from a config.json, in the old and in the new spelling.
#pragma once

#include <optional>
#include <string_view>

#include "am/model/config.h"
#include "am/model/config_reader.h"

namespace am::model {

// Reads the rotary embedding. In the old spelling, the config has `rope_theta` and an object
// `rope_scaling`, whose type is under `rope_type`, or under `type` in the oldest files. In the new
// spelling, one object `rope_parameters` has all of these keys. Required are `factor` of linear,
// the three factors of llama3, and the two lists of longrope; factors of unknown types are not
// read. The original length of llama3, yarn and longrope is `original_max_position_embeddings` of
// the config, or else that of the object, or else `config.max_position_embeddings`. The sizes of
// `config` must have been read before.
RopeConfig read_rope(ConfigReader& reader, const ModelConfig& config, double default_theta);

inline constexpr double kMaxTheta = 1e12;  // largest legal rope_theta

// Whether the config, or the object in it that describes the rotary embedding, has the key.
bool has_rope_key(ConfigReader& reader, std::string_view key);
// Returns a number of the object that describes the rotary embedding, or nothing if it has no such
// key. Adds an error if the number is not in [low, high].
std::optional<double> rope_number(ConfigReader& reader, std::string_view key, double low,
                                  double high);

// Reads the rotary embeddings of a family that has a separate one for layers with a sliding window.
// In the new spelling, `rope_parameters` has one object for each layer type ("full_attention" and
// "sliding_attention"). In the old spelling, the embedding of layers with a window has the theta
// `local_theta` and is not scaled. Sets config.rope and config.local_rope. Must be called after
// read_rope().
void read_layer_ropes(ConfigReader& reader, ModelConfig& config, double local_theta);

// Returns the factor of cosine and sine under yarn (Peng et al., 2023) and longrope (Ding et al.,
// 2024): the config's value or, if absent, a value computed from the scaling factor. Returns 1 for
// other types of rotary embedding.
double attention_factor(const RopeConfig& rope);
// Returns 0.1 * mscale * ln(factor) + 1 as yarn defines it, or 1 if factor <= 1.
double yarn_mscale(double factor, double mscale);

// Returns the number of elements of a head that are rotated: floor(head_dim * rotated_part).
int64_t rotated_width(const RopeConfig& rope, int64_t head_dim);

}  // namespace am::model
