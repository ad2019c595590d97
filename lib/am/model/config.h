// Reads a Hugging Face config.json into a typed value, ModelConfig. am-plan and am-run derive a
// model's layers and parameters from this value.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "am/base/diagnostic.h"

namespace am::model {

// Value of RopeConfig::type for a config with separate rotary embeddings for layers with full
// attention and for layers with a sliding window.
inline constexpr const char* kRopePerLayerType = "per layer type";

// Rotary embedding (RoPE). `type` is the config's rope_type. am-run can run the types "default",
// "linear", "llama3", "yarn" and "longrope"; models with other types ("dynamic", ...) can only be
// planned.
struct RopeConfig {
  std::string type = "default";
  double theta = 10000.0;
  double factor = 1.0;
  double low_freq_factor = 1.0;
  double high_freq_factor = 4.0;
  int64_t original_max_position_embeddings = 0;
  // With yarn, a frequency with more than beta_fast rotations within
  // original_max_position_embeddings positions is unchanged. A frequency with fewer than beta_slow
  // rotations is divided by `factor`. Between these bounds, the result is a weighted mean of both
  // values.
  double beta_fast = 32.0;
  double beta_slow = 1.0;
  // With yarn, each bound corresponds to an index in the list of frequencies. true: the indices are
  // rounded to integers, that of beta_fast down and that of beta_slow up.
  bool truncate = true;
  // With yarn, the values of the config's keys mscale and mscale_all_dim; 0: the key is absent.
  // attention_factor() (rope_config.h) computes a factor of cosine and sine from both values.
  // Latent attention also computes a factor of its scores from mscale_all_dim.
  double mscale = 0.0;
  double mscale_all_dim = 0.0;
  // Factor of cosine and sine with yarn and longrope. If absent, attention_factor() computes a
  // default.
  std::optional<double> attention_factor = {};
  // With longrope, the divisors of the frequencies. short_factor is used for sequences of at most
  // original_max_position_embeddings tokens, long_factor for longer sequences.
  std::vector<double> short_factor = {};
  std::vector<double> long_factor = {};
  double rotated_part = 1.0;  // fraction of the head dim that is rotated (partial_rotary_factor)

  bool operator==(const RopeConfig&) const = default;
};

// Multi-head latent attention (DeepSeek V2 and V3). Keys and values are projected from one low-rank
// vector per token, and all heads share the rotated part of the key, of width R = qk_rope_head_dim.
struct MlaConfig {
  // Size of the queries' low-rank vector. 0: q_proj reads the hidden state directly.
  int64_t q_lora_rank = 0;
  int64_t kv_lora_rank = 0;
  int64_t qk_nope_head_dim = 0;
  int64_t qk_rope_head_dim = 0;
  int64_t v_head_dim = 0;
  bool interleaved = true;  // whether RoPE pairs element 2i with 2i + 1; false: i with i + R/2

  int64_t qk_head_dim() const { return qk_nope_head_dim + qk_rope_head_dim; }
};

// Mixture of experts: each token is routed to `experts_per_token` of the `experts` experts. Shared
// experts process every token.
struct MoeConfig {
  int64_t experts = 0;
  int64_t experts_per_token = 0;
  int64_t expert_width = 0;
  // Width of a routed expert's input and output; 0: hidden_size.
  int64_t latent_width = 0;
  int64_t shared_width = 0;  // total width of all shared experts; 0: no shared experts
  bool shared_gate = false;  // whether a scalar gate per token scales the shared experts' output
  bool corrects = true;      // whether the router has a correction bias; used only for LFM2-MoE
  bool normalise = false;    // whether the routing weights of a token are normalised to sum to 1
  double scale = 1.0;        // factor of the routing weights, after normalisation
  // Number of groups into which the experts are divided. A token is routed only to experts in the
  // `topk_groups` groups with the best scores.
  int64_t groups = 1;
  int64_t topk_groups = 1;
  // transformers multiplies the router's input in training by uniform noise between 1 - jitter and
  // 1 + jitter. am-run supports only 0.
  double jitter = 0.0;
  // For each decoder layer: whether it has experts instead of a dense MLP.
  std::vector<bool> layers;
};

// Mixer of tokens other than attention: linear attention, a gated convolution, a gated linear
// recurrence, or Mamba. For DeepSeek V3.2 and GLM-5, these are the sizes of the indexer, which
// chooses the tokens that attention reads. Sizes that a mixer does not have are 0.
struct MixerConfig {
  int64_t key_heads = 0;
  int64_t heads = 0;      // heads of values (linear attention), of Mamba 2, or of the indexer
  int64_t key_width = 0;  // width of a head's keys
  int64_t width = 0;      // width of a head's values (linear attention), or of the indexer's heads
  int64_t groups = 0;     // groups of heads that share the projections B and C (Mamba 2)
  int64_t state = 0;      // size of a channel's state (Mamba)
  int64_t inner = 0;      // number of channels of Mamba or of the recurrence
  int64_t rank = 0;       // rank of the projection to Mamba's time steps
  int64_t kernel = 0;     // number of positions of the convolution
  bool conv_bias = false;
  bool bias_in = false;   // the input projection has a bias
  bool bias_out = false;  // the output projection has a bias
  bool norm = false;      // a norm precedes the output projection (Mamba 2)
  // For each decoder layer: whether it has this mixer instead of attention. Empty in Falcon-H1,
  // where every layer has both. In DeepSeek V3.2 and GLM-5: whether the layer has an indexer.
  std::vector<bool> layers;
};

struct ModelConfig {
  std::string model_type;  // model_type of the config, or of the text part of a multimodal config
  int64_t vocab_size = 0;
  int64_t hidden_size = 0;
  int64_t intermediate_size = 0;
  int64_t num_hidden_layers = 0;
  int64_t num_attention_heads = 0;
  int64_t num_key_value_heads = 0;
  int64_t head_dim = 0;
  int64_t value_width = 0;  // width of a head's values; 0: head_dim
  int64_t max_position_embeddings = 0;
  double rms_norm_eps = 1e-6;
  double initializer_range = 0.02;
  bool tie_word_embeddings = false;
  bool qkv_bias = false;              // q_proj, k_proj and v_proj have a bias
  bool o_bias = false;                // o_proj has a bias
  bool mlp_bias = false;              // gate_proj, up_proj and down_proj have a bias
  bool norm_bias = false;             // the norms have a bias
  bool head_bias = false;             // lm_head has a bias
  bool qk_norm = false;               // queries and keys are normalised
  bool qk_norm_spans_heads = false;   // queries and keys are normalised over all heads together
  bool qk_norm_follows_rope = false;  // queries and keys are normalised after the rotation
  bool gated_mlp = true;              // the MLP has gate, up and down; otherwise only up and down
  bool gates_heads = false;           // a gate scales each head's output as a whole (Laguna, LFM3)
  bool parallel_block = false;        // attention and MLP read the same input; outputs are added
  int hidden_norms = 2;               // number of norms over hidden_size per layer
  std::string hidden_act = "silu";
  // Name and value of the first dropout key whose value is above 0; empty and 0 without dropout. In
  // Seed-OSS, a missing key has the default of transformers' class, which is above 0.
  std::string dropout_key;
  double dropout = 0.0;
  // Token whose embedding row has no gradient (padding_idx of nn.Embedding). Set only for model
  // families whose class in transformers passes pad_token_id to nn.Embedding.
  std::optional<int64_t> padding_id;
  // ALiBi's smallest slope is 2^-alibi (BLOOM, MPT). Absent: the model has no ALiBi, or Falcon's
  // (rounds_alibi).
  std::optional<double> alibi;
  bool rounds_alibi = false;   // the model has ALiBi, with biases in bfloat16 (Falcon RW)
  bool bidirectional = false;  // attention is not causal (Gemma's embedding models)
  RopeConfig rope;
  // RoPE of layers with a sliding window. Absent: these layers use `rope`.
  std::optional<RopeConfig> local_rope;
  std::vector<bool> rotated_layers;  // for each layer: whether it uses RoPE; empty: all do
  bool rope_interleaved = false;     // RoPE pairs element 2i with 2i + 1, not i with i + width/2
  // Factor of the attention scores. Absent: 1 / sqrt(query_scalar).
  std::optional<double> attention_scale;
  // query_pre_attn_scalar of Gemma's configs. Absent: head_dim.
  std::optional<double> query_scalar;
  bool scales_attention = true;  // false: the factor of the attention scores is 1 (GPT-2)
  bool scales_by_layer = false;  // attention scores are also divided by 1 + layer index
  // Softcaps of the attention scores and of the logits. With a softcap c, each value is replaced by
  // c * tanh(value / c).
  std::optional<double> attention_softcap;
  std::optional<double> logit_softcap;
  double logit_scale = 1.0;      // factor of the logits
  double embedding_scale = 1.0;  // factor of the embeddings, unless Family::scales_embedding is set
  double residual_scale = 1.0;   // factor of the outputs of attention and feed-forward
  // Largest absolute value of elements of queries, keys and values; absent: no limit.
  std::optional<double> qkv_limit;
  // Constants of gpt-oss's clamped SwiGLU; the formula is in spec.h, at
  // LayerSpec::activation_alpha.
  std::optional<double> activation_limit;
  double activation_alpha = 1.0;
  // Number of positions that a token attends to in layers with a sliding window, itself included.
  // Absent: all layers have full causal attention.
  std::optional<int64_t> sliding_window;
  // Index of the first layer with the sliding window; all later layers have the window too. Ignored
  // if window_layers is not empty.
  int64_t window_first_layer = 0;
  // For each layer: whether it has the sliding window. Set only for patterns that
  // window_first_layer cannot express, for example alternating layers (Gemma 2, Gemma 3, gpt-oss);
  // otherwise empty.
  std::vector<bool> window_layers;
  std::optional<MlaConfig> mla;
  std::optional<MoeConfig> moe;
  std::optional<MixerConfig> mixer;
  // For each layer: whether it consists of a norm and a dense MLP alone (Nemotron-H). Empty in all
  // other families.
  std::vector<bool> lone_mlps;
  // Number of multi-token-prediction layers, which follow the decoder layers and are used only in
  // training. `num_hidden_layers` and the inventory do not include them.
  int64_t mtp_layers = 0;
  std::string dtype = "float32";  // dtype of the stored weights, according to the config

  // model_type of the multimodal config whose text part this config is; empty for other configs.
  std::string wrapped_in;
  std::string file;  // path from which the config was read
  std::string text;  // contents of `file`; exports copy this text, and diagnostics cite it
};

// Returns the sliding window of the layer, or nothing if the layer has full causal attention.
std::optional<int64_t> window_of(const ModelConfig& config, int64_t layer);
// Whether the layer has experts instead of a dense MLP.
bool has_experts(const ModelConfig& config, int64_t layer);

// Reads a config.json, or the config.json in a folder. Accepts both spellings of the rotary
// embedding (`rope_theta` + `rope_scaling`, or `rope_parameters`) and both `dtype` and
// `torch_dtype`. Reads a config with an unknown model_type as Llama, with a warning, if its keys
// fit a Llama decoder. Reads only the text part of a known multimodal config, also with a warning.
// Adds an error with file, line and column for every violation of a rule "model.*" that concerns
// the config alone, and then returns nothing. Throws Error(kIo) if the file cannot be read.
std::optional<ModelConfig> load_config(const std::filesystem::path& path, Diagnostics& found);
// Like load_config(), but parses `text`, the contents of a config.json. Messages cite `file`.
std::optional<ModelConfig> parse_config(const std::string& text, const std::string& file,
                                        Diagnostics& found);

}  // namespace am::model
