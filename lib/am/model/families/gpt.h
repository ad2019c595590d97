// Names of modules and of config keys that decoders of the GPT line have in common.
#pragma once

#include <string_view>

#include "am/model/family.h"

namespace am::model {

// Names of the modules of GPT-2, GPT-Neo and GPT-BigCode.
inline constexpr ModuleNames kGptNames = {.embedding = "transformer.wte",
                                          .positions = "transformer.wpe",
                                          .layers = "transformer.h",
                                          .norm = "transformer.ln_f"};

// Returns the names of GPT-2's config keys. Llama's names of the keys for hidden size, heads and
// layers are accepted too. `width` is the name of the key for the MLP's width; it is empty if
// configs have no such key.
constexpr ConfigKeys gpt_keys(std::string_view width = "n_inner",
                              std::string_view activation = "activation_function") {
  return {.hidden_size = "n_embd",
          .intermediate_size = width,
          .layers = "n_layer",
          .heads = "n_head",
          .key_value_heads = "",
          .head_dim = "",
          .positions = "n_positions",
          .norm_eps = "layer_norm_epsilon",
          .activation = activation,
          .spellings = {{{"n_embd", "hidden_size"},
                         {"n_head", "num_attention_heads"},
                         {"n_layer", "num_hidden_layers"}}}};
}

}  // namespace am::model
