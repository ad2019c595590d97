// The families that registry.cpp lists, and what several of them share.
#pragma once

#include "am/model/family.h"

namespace am::model {

extern const Family kLlama;
extern const Family kMistral;
extern const Family kQwen2;
extern const Family kQwen3;

// Qwen's sliding window: `sliding_window` counts only with `use_sliding_window`, and then from
// layer `max_window_layers` on, or where `layer_types` says "sliding_attention".
void read_qwen_window(ConfigReader& reader, ModelConfig& config);

}  // namespace am::model
