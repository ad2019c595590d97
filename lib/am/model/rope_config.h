// Reading the rotary embedding's part of a config.json, in its old and its new spelling.
#pragma once

#include "am/model/config.h"
#include "am/model/config_reader.h"

namespace am::model {

// Old: `rope_theta` beside `rope_scaling` (whose kind is `rope_type`, or `type` in the oldest
// files). New: `rope_parameters` with everything in it. The factors of linear, llama3 and longrope
// are required; those of kinds that are not known are not read. The original length of llama3, yarn
// and longrope is `original_max_position_embeddings`, of the config or else of the object;
// `config.max_position_embeddings` where neither names one. `config` has its sizes.
RopeConfig read_rope(ConfigReader& reader, const ModelConfig& config, double default_theta);

// Of a family whose layers with a window have a rope of their own: `rope_parameters` by layer type
// ("full_attention", "sliding_attention"), or in the old spelling `rope_local_base_freq`, unscaled.
// Fills in `rope` and `local_rope`; Call it after read_rope.
void read_layer_ropes(ConfigReader& reader, ModelConfig& config);

// What cosine and sine are multiplied with under yarn (Peng et al., 2023) and longrope (Ding et
// al., 2024): written, or from the factor; else 1.
double attention_factor(const RopeConfig& rope);
// yarn's 0.1 * mscale * ln(factor) + 1; 1 for a factor of at most 1.
double yarn_mscale(double factor, double mscale);

// Of a head's width, how much turns: the whole part of width * rotated_part.
int64_t rotated_width(const RopeConfig& rope, int64_t head_dim);

}  // namespace am::model
