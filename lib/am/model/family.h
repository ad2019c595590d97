// What one model family adds to the common decoder: reading its config and naming its parameters.
//
// A family is one file in families/: a `Family` value with plain functions. To add one, write the
// file and list it in families/registry.cpp.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "am/model/config.h"
#include "am/model/config_reader.h"
#include "am/model/inventory.h"
#include "am/model/tp_plan.h"

namespace am::model {

struct Family {
  std::string_view model_type;
  std::string_view description;  // one line for `am-plan model` and the docs

  // What a config that leaves the key out means: the defaults of transformers' configuration class.
  int64_t max_position_embeddings;
  std::optional<int64_t> key_value_heads;  // nothing: as many as query heads
  std::optional<int64_t> head_dim;         // nothing: hidden_size / num_attention_heads

  // Fills what is this family's own (biases, norms, windows) after the common keys.
  void (*read_config)(ConfigReader& reader, ModelConfig& config);
};

std::span<const Family* const> families();
const Family* find_family(std::string_view model_type);
// "llama", "mistral", ... in the registry's order.
std::vector<std::string> family_names();

}  // namespace am::model
