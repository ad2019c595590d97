// Reading the rotary embedding's part of a config.json, in its old and its new spelling.
#pragma once

#include "am/model/config.h"
#include "am/model/config_reader.h"

namespace am::model {

// Old: `rope_theta` beside `rope_scaling` (whose kind is `rope_type`, or `type` in the oldest
// files). New: `rope_parameters` with everything in it. The factors of linear and llama3 are
// required; those of other kinds are not read, because only what runs a model needs them.
// `max_position_embeddings` is llama3's original length when the config names none.
RopeConfig read_rope(ConfigReader& reader, int64_t max_position_embeddings, double default_theta);

// Of a family whose layers with a window have a rope of their own: `rope_parameters` by layer type
// ("full_attention", "sliding_attention"), or in the old spelling `rope_local_base_freq`, unscaled.
// Fills in `rope` and `local_rope`; Call it after read_rope.
void read_layer_ropes(ConfigReader& reader, ModelConfig& config);

}  // namespace am::model
