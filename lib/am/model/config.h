// A Hugging Face config.json as a typed value: what every later question about a model starts from.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "am/base/diagnostic.h"

namespace am::model {

// Rotary embedding. `type` is "default", "linear" or "llama3"; the factors are those of the config.
struct RopeConfig {
  std::string type = "default";
  double theta = 10000.0;
  double factor = 1.0;
  double low_freq_factor = 1.0;
  double high_freq_factor = 4.0;
  int64_t original_max_position_embeddings = 0;
};

struct ModelConfig {
  std::string model_type;  // "llama", "mistral", "qwen2", "qwen3"
  int64_t vocab_size = 0;
  int64_t hidden_size = 0;
  int64_t intermediate_size = 0;
  int64_t num_hidden_layers = 0;
  int64_t num_attention_heads = 0;
  int64_t num_key_value_heads = 0;
  int64_t head_dim = 0;
  int64_t max_position_embeddings = 0;
  double rms_norm_eps = 1e-6;
  double initializer_range = 0.02;
  bool tie_word_embeddings = false;
  bool qkv_bias = false;  // q_proj, k_proj, v_proj
  bool o_bias = false;    // o_proj
  bool mlp_bias = false;  // gate_proj, up_proj, down_proj
  bool qk_norm = false;   // q_norm, k_norm over head_dim
  std::string hidden_act = "silu";
  RopeConfig rope;
  // Attention looks back at most this many positions, itself included, in layers >=
  // window_first_layer; absent: full causal.
  std::optional<int64_t> sliding_window;
  int64_t window_first_layer = 0;
  std::string dtype = "float32";  // what the checkpoint says its values are stored as

  std::string file;  // where it was read
  std::string text;  // its bytes: exports copy them, diagnostics point into them
};

// Reads a config.json, or the config.json of a folder. Both spellings of the rotary embedding are
// understood (`rope_theta` + `rope_scaling`; `rope_parameters`), and `torch_dtype` as well as
// `dtype`. Adds every violation (rules "model.*") with file, line and column; nothing when one is
// an error.
std::optional<ModelConfig> load_config(const std::filesystem::path& path, Diagnostics& found);
// The same from text; `file` is only named.
std::optional<ModelConfig> parse_config(const std::string& text, const std::string& file,
                                        Diagnostics& found);

}  // namespace am::model
