// Whether the decoder of this library computes a model: what it does is told by planner/runs.h.
//
//   Diagnostics found;
//   check_runnable(config, found);  // "runtime.unsupported" at model_type, rope_scaling,
//   hidden_act
#pragma once

#include "am/base/diagnostic.h"
#include "am/model/config.h"

namespace am::nn {

// Adds a "runtime.unsupported" error, with its place in the config, for everything of a valid
// config that Decoder cannot compute; nothing when it can.
void check_runnable(const model::ModelConfig& config, Diagnostics& found);

}  // namespace am::nn
