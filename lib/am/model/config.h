// A Hugging Face config.json as a typed value. Everything the planner and the runtime know about a
// model is derived from it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "am/base/diagnostic.h"

namespace am::model {

// RopeConfig::type of a config with a separate rotary embedding for each layer type.
inline constexpr const char* kRopePerLayerType = "per layer type";

// Rotary embedding. `type` is the config's spelling; "default", "linear", "llama3", "yarn" and
// "longrope" can be run, other types ("dynamic", ...) can only be planned.
struct RopeConfig {
  std::string type = "default";
  double theta = 10000.0;
  double factor = 1.0;
  double low_freq_factor = 1.0;
  double high_freq_factor = 4.0;
  int64_t original_max_position_embeddings = 0;
  // yarn: frequencies with more than beta_fast rotations within the original length are kept, those
  // with fewer than beta_slow rotations are divided by `factor`, those between are interpolated.
  double beta_fast = 32.0;
  double beta_slow = 1.0;
  bool truncate = true;  // round the bounds of that range to whole dimensions
  double mscale = 0.0;   // 0: none
  double mscale_all_dim = 0.0;
  // yarn and longrope: factor of cosine and sine; derived from `factor` if absent.
  std::optional<double> attention_factor = {};
  // longrope: divisor of each frequency, for sequences up to the original length and for longer
  // ones.
  std::vector<double> short_factor = {};
  std::vector<double> long_factor = {};
  double rotated_part = 1.0;  // fraction of the head dim that is rotated: partial_rotary_factor
};

// Multi-head latent attention (DeepSeek V2 and V3): keys and values are projected from one low-rank
// vector per token; one rotated part of the key is shared by all heads.
struct MlaConfig {
  int64_t q_lora_rank = 0;  // 0: q_proj reads the hidden state
  int64_t kv_lora_rank = 0;
  int64_t qk_nope_head_dim = 0;
  int64_t qk_rope_head_dim = 0;
  int64_t v_head_dim = 0;
  bool interleaved = true;  // RoPE rotates adjacent pairs instead of halves

  int64_t qk_head_dim() const { return qk_nope_head_dim + qk_rope_head_dim; }
};

// Mixture of experts: each token is routed to `experts_per_token` of `experts`; shared experts
// process every token.
struct MoeConfig {
  int64_t experts = 0;
  int64_t experts_per_token = 0;
  int64_t expert_width = 0;
  int64_t shared_width = 0;  // total width of all shared experts; 0: none
  bool shared_gate = false;  // a scalar gate per token scales the shared experts' output
  bool normalise = false;    // normalise the top-k routing weights to sum to 1
  double scale = 1.0;        // factor of the routing weights, after normalisation
  int64_t groups = 1;  // expert groups; a token is routed within its `topk_groups` best groups
  int64_t topk_groups = 1;
  // Training multiplies the router's input by uniform noise in [1 - jitter, 1 + jitter].
  double jitter = 0.0;
  std::vector<bool> layers;  // per decoder layer: experts (true) or a dense MLP
};

struct ModelConfig {
  std::string model_type;  // as in the config; for a multimodal config: the text part's
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
  bool norm_bias = false;            // LayerNorm instead of RMSNorm
  bool head_bias = false;            // lm_head
  bool qk_norm = false;              // norms over queries and keys
  bool qk_norm_spans_heads = false;  // ... over all heads together instead of per head
  bool gated_mlp = true;             // gate, up and down; else up and down
  bool parallel_block = false;       // attention and MLP read the same input and are added together
  int hidden_norms = 2;              // number of norms over hidden_size per layer
  std::string hidden_act = "silu";
  // Dropout in training: key and value of the config's first dropout key above 0.
  std::string dropout_key;
  double dropout = 0.0;
  // Token whose embedding row gets no gradient (nn.Embedding's padding_idx), if the family's class
  // passes pad_token_id to the embedding.
  std::optional<int64_t> padding_id;
  bool alibi = false;          // attention scores are biased by position (Falcon RW)
  bool bidirectional = false;  // attention is not causal (Gemma's embedding models)
  RopeConfig rope;
  std::optional<RopeConfig> local_rope;  // for layers with a window, if it differs (Gemma 3)
  std::vector<bool> rotated_layers;      // per layer: uses RoPE; empty: all layers do
  // The attention scale is 1 / sqrt(query_scalar) instead of 1 / sqrt(head_dim).
  std::optional<double> query_scalar;
  bool scales_attention = true;  // false: scores are not scaled
  bool scales_by_layer = false;  // scores are also divided by the layer's number, counted from 1
  std::optional<double> attention_softcap;  // c: scores become c * tanh(score / c)
  std::optional<double> logit_softcap;
  // Clamped SwiGLU (gpt-oss).
  std::optional<double> activation_limit;
  double activation_alpha = 1.0;
  // Sliding window in layers >= window_first_layer: number of positions a token attends to, itself
  // included. Absent: full causal attention.
  std::optional<int64_t> sliding_window;
  int64_t window_first_layer = 0;
  // Per layer: has the window. Used if window_first_layer cannot express the pattern (Gemma 2 and
  // 3, gpt-oss); otherwise empty.
  std::vector<bool> window_layers;
  std::optional<MlaConfig> mla;
  std::optional<MoeConfig> moe;
  // Multi-token-prediction layers: additional decoder layers after the last, used only in training.
  // Not counted in `num_hidden_layers` and not in the inventory.
  int64_t mtp_layers = 0;
  std::string dtype = "float32";  // dtype of the checkpoint's values, according to the config

  // The model_type of the multimodal config that contains this text part; usually empty.
  std::string wrapped_in;
  std::string file;  // path the config was read from
  std::string text;  // the file's bytes, for exports and for spans of diagnostics
};

// Returns the layer's sliding window, or nothing if its attention is fully causal.
std::optional<int64_t> window_of(const ModelConfig& config, int64_t layer);
// Whether the layer has experts instead of a dense MLP.
bool has_experts(const ModelConfig& config, int64_t layer);

// Reads a config.json, or the config.json in a folder. Accepts both spellings of the rotary
// embedding (`rope_theta` + `rope_scaling`, or `rope_parameters`) and both `dtype` and
// `torch_dtype`. An unknown model_type of Llama's shape is read as Llama, and only the text part of
// a known multimodal config is read; both add a warning. Adds every violation (rules "model.*")
// with file, line and column. Returns nothing if there is an error.
std::optional<ModelConfig> load_config(const std::filesystem::path& path, Diagnostics& found);
// As load_config, but parses `text`; `file` is used in messages only.
std::optional<ModelConfig> parse_config(const std::string& text, const std::string& file,
                                        Diagnostics& found);

}  // namespace am::model
