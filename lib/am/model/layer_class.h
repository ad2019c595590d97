// The classes that transformers gives decoder layers: what a list of FSDP units names.
//
//   is_layer_class(qwen3, "Qwen3DecoderLayer");                                           // true
//   find_layer_class("transformers.models.llama.modeling_llama.LlamaDecoderLayer");       // llama
//
// A class is named by its full path or by its last part; no two families share either.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "am/model/config.h"
#include "am/model/family.h"

namespace am::model {

// "LlamaDecoderLayer"
std::string_view bare_class_name(std::string_view path);
// The family whose decoder layers have this class; null when none has.
const Family* find_layer_class(std::string_view name);
// Whether the decoder layers of this model have this class.
bool is_layer_class(const ModelConfig& config, std::string_view name);
// All families' classes, by their full paths.
std::vector<std::string> layer_class_names();

}  // namespace am::model
