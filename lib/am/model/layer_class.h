// Finds model families by the names of transformers' decoder layer classes, which users list as
// FSDP units.
//
//   is_layer_class(qwen3, "Qwen3DecoderLayer");                                           // true
//   find_layer_class("transformers.models.llama.modeling_llama.LlamaDecoderLayer");       // llama
//
// A class name may be a full path or the path's last component. Either form identifies the family.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "am/model/config.h"
#include "am/model/family.h"

namespace am::model {

// Returns the last component of a class path, for example "LlamaDecoderLayer".
std::string_view bare_class_name(std::string_view path);
// Returns the family whose decoder layers have this class, or null.
const Family* find_layer_class(std::string_view name);
// Whether the model's decoder layers have this class.
bool is_layer_class(const ModelConfig& config, std::string_view name);
// Returns the full path of the decoder layer class of each family.
std::vector<std::string> layer_class_names();

}  // namespace am::model
