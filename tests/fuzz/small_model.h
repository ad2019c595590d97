// A small model for targets that check plans. Most layouts of 2 or 4 ranks divide the model evenly.
#pragma once

#include "am/model/config.h"

namespace am::fuzz {

inline const model::ModelConfig& small_model() {
  static const auto config = [] {
    Diagnostics found;
    return model::parse_config(
        R"({"model_type": "llama", "vocab_size": 256, "hidden_size": 64, "intermediate_size": 128,
            "num_hidden_layers": 4, "num_attention_heads": 8, "num_key_value_heads": 4,
            "max_position_embeddings": 4096})",
        "config.json", found);
  }();
  return *config;
}

}  // namespace am::fuzz
