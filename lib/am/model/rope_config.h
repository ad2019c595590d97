// Reads the rotary embedding (RoPE) from a config.json, in the old and in the new spelling.
#pragma once

#include "am/model/config.h"
#include "am/model/config_reader.h"

namespace am::model {

// Reads the rotary embedding. In the old spelling, the config has `rope_theta` and an object
// `rope_scaling`, whose type is under `rope_type`, or `type` in the oldest files. In the new
// spelling, the object `rope_parameters` has all of these. The factors of linear, llama3 and
// longrope are required; factors of unknown types are not read. The original length of llama3, yarn
// and longrope is the config's `original_max_position_embeddings`; if it is absent, that of the
// object; if this is absent too, `config.max_position_embeddings`. The sizes of `config` must have
// been read before.
RopeConfig read_rope(ConfigReader& reader, const ModelConfig& config, double default_theta);

// Reads the two rotary embeddings of families whose layers with a sliding window have a separate
// one. In the new spelling, `rope_parameters` has one object for each layer type ("full_attention"
// and "sliding_attention"); in the old spelling, `rope_local_base_freq` is the theta of the second,
// which is not scaled. Sets config.rope and config.local_rope. Must be called after read_rope().
void read_layer_ropes(ConfigReader& reader, ModelConfig& config);

// Returns the factor of cosine and sine under yarn (Peng et al., 2023) and longrope (Ding et al.,
// 2024): the value in the config or, if it has none, one computed from the scaling factor. Returns
// 1 for other types.
double attention_factor(const RopeConfig& rope);
// Returns 0.1 * mscale * ln(factor) + 1 as yarn defines it, or 1 if factor <= 1.
double yarn_mscale(double factor, double mscale);

// Returns the number of elements of a head that are rotated: floor(head_dim * rotated_part).
int64_t rotated_width(const RopeConfig& rope, int64_t head_dim);

}  // namespace am::model
