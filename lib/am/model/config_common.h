// Reading what every decoder's config has: sizes, heads, norms, activation, rotary embedding.
#pragma once

#include "am/model/config.h"
#include "am/model/config_reader.h"
#include "am/model/family.h"

namespace am::model {

// The five sizes are required; with `class_sizes` (the text part of a multimodal config) the
// family's own stand in for those that are left out.
void read_sizes(ConfigReader& reader, const Family& family, bool class_sizes, ModelConfig& config);
void read_common(ConfigReader& reader, const Family& family, ModelConfig& config);

// Adds "model.value" when the model has more tensors than an inventory may list, or more parameters
// than byte counts can hold. Call it on a config without errors.
void check_extent(ConfigReader& reader, const ModelConfig& config);

}  // namespace am::model
