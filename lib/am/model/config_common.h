// Reads the keys that every decoder's config has: sizes, heads, norms, activation, rotary
// embedding.
#pragma once

#include "am/model/config.h"
#include "am/model/config_reader.h"
#include "am/model/family.h"

namespace am::model {

// Reads the five sizes, which are required. With `class_sizes` (text part of a multimodal config),
// the family's class defaults replace missing ones.
void read_sizes(ConfigReader& reader, const Family& family, bool class_sizes, ModelConfig& config);
void read_common(ConfigReader& reader, const Family& family, ModelConfig& config);

// Adds "model.value" if the model has more tensors than an inventory may list, or more parameters
// than byte counts can represent. The config must have no errors.
void check_extent(ConfigReader& reader, const ModelConfig& config);

}  // namespace am::model
