// Reads the rotary embedding from a config.json, in its old and its new spelling.
#pragma once

#include "am/model/config.h"
#include "am/model/config_reader.h"

namespace am::model {

// Old spelling: `rope_theta` and `rope_scaling` (whose type is under `rope_type`, or `type` in the
// oldest files). New: `rope_parameters` with everything in it. The factors of linear, llama3 and
// longrope are required; factors of unknown types are not read. The original length of llama3, yarn
// and longrope is `original_max_position_embeddings` of the config, else of the object, else
// `config.max_position_embeddings`. The sizes of `config` must have been read.
RopeConfig read_rope(ConfigReader& reader, const ModelConfig& config, double default_theta);

// For families with a separate rope for layers with a window: reads `rope_parameters` per layer
// type ("full_attention", "sliding_attention"), or in the old spelling `rope_local_base_freq`,
// unscaled. Sets `rope` and `local_rope`. Must be called after read_rope.
void read_layer_ropes(ConfigReader& reader, ModelConfig& config);

// Factor of cosine and sine under yarn (Peng et al., 2023) and longrope (Ding et al., 2024): the
// configured value, otherwise computed from the scaling factor. 1 for other types.
double attention_factor(const RopeConfig& rope);
// yarn's 0.1 * mscale * ln(factor) + 1, or 1 if factor <= 1.
double yarn_mscale(double factor, double mscale);

// Number of rotated elements of a head: floor(head_dim * rotated_part).
int64_t rotated_width(const RopeConfig& rope, int64_t head_dim);

}  // namespace am::model
