// Reads the keys that every decoder's config has: sizes, heads, norms, activation, rotary
// embedding.
#pragma once

#include "am/model/config.h"
#include "am/model/config_reader.h"
#include "am/model/family.h"

namespace am::model {

// Reads the five sizes: vocabulary, hidden size, intermediate size, layers and heads. A missing
// size is an error unless `class_sizes` is set, as for the text part of a multimodal config; then
// the default of the family's configuration class replaces it.
void read_sizes(ConfigReader& reader, const Family& family, bool class_sizes, ModelConfig& config);
void read_common(ConfigReader& reader, const Family& family, ModelConfig& config);

// Adds an error of rule "model.value" if the model has more tensors than the Inventory may list, or
// so many parameters that byte counts could overflow. The config must have no errors.
void check_extent(ConfigReader& reader, const ModelConfig& config);

}  // namespace am::model
