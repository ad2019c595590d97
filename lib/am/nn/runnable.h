// Which models the decoder of this library computes. am-plan plans many more families than that.
//
//   Diagnostics found;
//   check_runnable(config, found);  // "runtime.unsupported" at model_type, rope_scaling,
//   hidden_act
#pragma once

#include <string>
#include <vector>

#include "am/base/diagnostic.h"
#include "am/model/config.h"

namespace am::nn {

// "llama", "mistral", "qwen2", "qwen3".
const std::vector<std::string>& runnable_families();

// Adds a "runtime.unsupported" error, with its place in the config, for everything of a valid
// config that Decoder cannot compute; nothing when it can.
void check_runnable(const model::ModelConfig& config, Diagnostics& found);
// The same, and an error for what Decoder leaves out in training alone: dropout.
void check_trainable(const model::ModelConfig& config, Diagnostics& found);

}  // namespace am::nn
