// Reads the keys of config.json that decoders have in common: sizes, heads, norms, activation,
// rotary embedding and others.
#pragma once

#include "am/model/config.h"
#include "am/model/config_reader.h"
#include "am/model/family.h"

namespace am::model {

// Reads the five sizes: vocabulary, hidden size, intermediate size, number of layers and number of
// heads. If `class_sizes` is set (for the text part of a multimodal config), a missing size gets
// the default of the family's configuration class; otherwise a missing size is an error. In
// families with an intermediate_ratio (family.h), a missing intermediate size is never an error.
void read_sizes(ConfigReader& reader, const Family& family, bool class_sizes, ModelConfig& config);
// Reads the other keys that families have in common into `config`. read_sizes() must be called
// first.
void read_common(ConfigReader& reader, const Family& family, ModelConfig& config);

// Adds an error of rule "model.value" if the model has more tensors or parameters than automesh
// supports. Beyond these limits, byte counts could overflow. Must be called only for a config
// without errors.
void check_extent(ConfigReader& reader, const ModelConfig& config);

}  // namespace am::model
