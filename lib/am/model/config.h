// A Hugging Face config.json as a typed value: what every later question about a model starts from.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "am/base/diagnostic.h"

namespace am::model {

// RopeConfig::type of a config with an embedding of its own for each kind of layer.
inline constexpr const char* kRopePerLayerType = "per layer type";

// Rotary embedding. `type` is as the config says; the factors are known for "default", "linear",
// "llama3", "yarn" and "longrope". Another type ("dynamic", ...) can be planned and not run.
struct RopeConfig {
  std::string type = "default";
  double theta = 10000.0;
  double factor = 1.0;
  double low_freq_factor = 1.0;
  double high_freq_factor = 4.0;
  int64_t original_max_position_embeddings = 0;
  // yarn: frequencies that turn more often than beta_fast within the original length stay, those
  // that turn less often than beta_slow are divided by `factor`.
  double beta_fast = 32.0;
  double beta_slow = 1.0;
  bool truncate = true;  // the bounds between them are whole dimensions
  double mscale = 0.0;   // 0: none
  double mscale_all_dim = 0.0;
  // yarn and longrope: what cosine and sine are multiplied with; absent: it follows from `factor`.
  std::optional<double> attention_factor = {};
  // longrope: what each frequency is divided by, up to the original length and beyond it.
  std::vector<double> short_factor = {};
  std::vector<double> long_factor = {};
  double rotated_part = 1.0;  // of a head's width: partial_rotary_factor
};

// Multi-head latent attention (DeepSeek V2 and V3): keys and values come from one narrow vector a
// token, and a part of each key, the same for all heads, is rotated.
struct MlaConfig {
  int64_t q_lora_rank = 0;  // 0: q_proj reads the hidden state
  int64_t kv_lora_rank = 0;
  int64_t qk_nope_head_dim = 0;
  int64_t qk_rope_head_dim = 0;
  int64_t v_head_dim = 0;
  bool interleaved = true;  // neighbours of the rotated part turn together, not halves

  int64_t qk_head_dim() const { return qk_nope_head_dim + qk_rope_head_dim; }
};

// A feed-forward of experts: `experts_per_token` of `experts` work on a token, the shared ones on
// every token.
struct MoeConfig {
  int64_t experts = 0;
  int64_t experts_per_token = 0;
  int64_t expert_width = 0;
  int64_t shared_width = 0;  // all shared experts together; 0: none
  bool shared_gate = false;  // a number per token weighs the shared experts' output
  bool normalise = false;    // the taken experts' weights add up to 1
  double scale = 1.0;        // ... and are multiplied with this
  int64_t groups = 1;        // a token takes experts out of `taken_groups` of them
  int64_t taken_groups = 1;
  double jitter = 0.0;       // training multiplies what the router reads with numbers so near to 1
  std::vector<bool> layers;  // by decoder layer: experts (true) or the dense MLP
};

struct ModelConfig {
  std::string model_type;  // as the config says; of a multimodal config: its text part's
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
  bool qkv_bias = false;             // q_proj, k_proj, v_proj
  bool o_bias = false;               // o_proj
  bool mlp_bias = false;             // gate_proj, up_proj, down_proj
  bool norm_bias = false;            // LayerNorm in place of RMSNorm
  bool head_bias = false;            // lm_head
  bool qk_norm = false;              // norms over queries and keys
  bool qk_norm_spans_heads = false;  // ... over all heads together, not over head_dim
  bool gated_mlp = true;             // gate, up and down; else up and down
  bool parallel_block = false;       // attention and MLP side by side, not one after the other
  int hidden_norms = 2;              // norms over hidden_size in a layer
  std::string hidden_act = "silu";
  // In training: the first key above 0 of those that the family has.
  std::string dropout_key;
  double dropout = 0.0;
  // The token whose row a look-up does not train, where the family's class asks for that
  // (nn.Embedding's padding_idx).
  std::optional<int64_t> padding_id;
  bool alibi = false;          // positions bias the scores (Falcon RW)
  bool bidirectional = false;  // attention looks ahead too (Gemma's embedding models)
  RopeConfig rope;
  std::optional<RopeConfig> local_rope;  // of layers with a window, where it is another (Gemma 3)
  std::vector<bool> rotated_layers;      // by layer; empty: all
  std::optional<double> query_scalar;    // scores are divided by its root, not by that of head_dim
  bool scales_attention = true;          // false: scores are not divided at all
  bool scales_by_layer = false;          // ... and by the layer's number from 1
  std::optional<double> attention_softcap;  // c: scores become c * tanh(score / c)
  std::optional<double> logit_softcap;
  // Of clamped SwiGLU (gpt-oss).
  std::optional<double> activation_limit;
  double activation_alpha = 1.0;
  // Attention looks back at most this many positions, itself included, in layers >=
  // window_first_layer; absent: full causal.
  std::optional<int64_t> sliding_window;
  int64_t window_first_layer = 0;
  // By layer, where the rule above is too simple (Gemma 2 and 3, gpt-oss); empty: the rule above.
  std::vector<bool> window_layers;
  std::optional<MlaConfig> mla;
  std::optional<MoeConfig> moe;
  // Multi-token prediction: further decoder layers after the last, trained and not needed to run.
  // They are not among `num_hidden_layers`, and not in the inventory.
  int64_t mtp_layers = 0;
  std::string dtype = "float32";  // what the checkpoint says its values are stored as

  std::string wrapped_in;  // the multimodal model_type whose text part this is; mostly empty
  std::string file;        // where it was read
  std::string text;        // its bytes: exports copy them, diagnostics point into them
};

// The window of layer `layer`; nothing: it sees every position before it.
std::optional<int64_t> window_of(const ModelConfig& config, int64_t layer);
// Whether the feed-forward of layer `layer` is one of experts.
bool has_experts(const ModelConfig& config, int64_t layer);

// Reads a config.json, or the config.json of a folder. Both spellings of the rotary embedding are
// understood (`rope_theta` + `rope_scaling`; `rope_parameters`), and `torch_dtype` as well as
// `dtype`. An unknown model_type of Llama's shape is read as Llama, and of a known multimodal
// config only the text part is read, both with a warning. Adds every violation (rules "model.*")
// with file, line and column; nothing when one is an error.
std::optional<ModelConfig> load_config(const std::filesystem::path& path, Diagnostics& found);
// The same from text; `file` is only named.
std::optional<ModelConfig> parse_config(const std::string& text, const std::string& file,
                                        Diagnostics& found);

}  // namespace am::model
