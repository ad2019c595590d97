// Building blocks for model families: functions that read config keys, and functions that add
// modules to the description of a layer.
//
//   LayerSpec describe_layer(const ModelConfig& config, int64_t layer) {
//     LayerSpec spec = start_layer(config, layer);
//     add_attention(config, spec);
//     add_gated_mlp(config, spec);
//     add_norms(config, spec, kLlamaNorms);
//     return spec;
//   }
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "am/model/config_reader.h"
#include "am/model/spec.h"

namespace am::model {

// Functions that read config keys.

// Largest legal values of keys, far above those of any real model.
inline constexpr int64_t kMaxWidth = int64_t{1} << 22;    // width of a feed-forward
inline constexpr int64_t kMostLayers = int64_t{1} << 20;  // layer indices and periods of layers
inline constexpr int64_t kMaxShared = int64_t{1} << 10;   // shared experts

// Returns, for each layer, whether the list under `key` contains the layer's index. Indices of
// num_hidden_layers or more are ignored. A missing key is an empty list. Adds an error if the value
// is not a list of indices.
std::vector<bool> read_layer_indices(ConfigReader& reader, const ModelConfig& config,
                                     std::string_view key);

// Reads attention_bias, which applies to q_proj, k_proj, v_proj and o_proj. If the key is missing,
// its value is `fallback`.
void read_attention_bias(ConfigReader& reader, ModelConfig& config, bool fallback = false);
// Reads sliding_window for families in which this key alone enables the window. null means no
// window. If the key is missing, the window has `fallback` positions; 0: no window.
void read_window(ConfigReader& reader, ModelConfig& config, int64_t fallback);
// Sets which layers have the sliding window: the layers whose entry in `layer_types` is
// "sliding_attention" or, without this key, all layers except every `period`-th.
void read_window_layers(ConfigReader& reader, ModelConfig& config, int64_t period);
// Reads Qwen's sliding window by read_late_window() if `use_sliding_window` is true; otherwise no
// layer has a window.
void read_qwen_window(ConfigReader& reader, ModelConfig& config);
// Reads sliding_window, whose default is `window`. If the config has layer_types, the window
// applies to the layers that this key marks "sliding_attention". Otherwise it applies to all layers
// from index max_window_layers on; the default of this key is `first_layer`.
void read_late_window(ConfigReader& reader, ModelConfig& config, int64_t window,
                      int64_t first_layer);
// Sets which layers have the sliding window. If all layers after the first one with the window have
// the window too, config.window_first_layer stores the pattern, otherwise config.window_layers.
void set_window_layers(ModelConfig& config, std::vector<bool> windowed);

// Sets the fraction of each head that RoPE rotates to `part`, unless the config states
// partial_rotary_factor.
void set_rotated_part(ConfigReader& reader, ModelConfig& config, double part);
// Returns rotary_dim, the number of elements of each head that RoPE rotates, which must be even.
std::optional<int64_t> read_rotary_dim(ConfigReader& reader, const ModelConfig& config);

// Enables RoPE only in the layers with the sliding window, which must have been read before.
void rotate_windowed_layers(ModelConfig& config);
// Turns RoPE off in all layers, for example for learned positions or ALiBi.
void rotate_no_layer(ModelConfig& config);
// Adds an error with the text `message` if the key has a value other than `only`. Other values
// cannot be planned. A key that is missing or null is legal.
void require_boolean(ConfigReader& reader, std::string_view key, bool only,
                     const std::string& message);

// Names of a family's config keys for experts, and the values of missing keys; a default of 0 means
// that the key is required. Each list has alternative spellings of one key; the first spelling that
// the config has is read.
struct MoeKeys {
  std::initializer_list<std::string_view> experts;
  int64_t default_experts;
  std::initializer_list<std::string_view> experts_per_token;
  int64_t default_experts_per_token;
  std::string_view width;  // name of the key for one expert's intermediate size
  int64_t default_width;
};
// Reads the keys into config.moe, with experts in all layers. The caller then changes
// config.moe->layers and adds shared experts if needed. If `may_be_dense` is set, a config with 0
// experts describes a dense model, and config.moe stays empty.
void read_moe(ConfigReader& reader, ModelConfig& config, const MoeKeys& keys,
              bool may_be_dense = false);
// Reads Mixtral's keys of experts into config.moe.
void read_mixtral_experts(ConfigReader& reader, ModelConfig& config);
// Reads router_jitter_noise into config.moe.
void read_jitter(ConfigReader& reader, ModelConfig& config);
// Reads norm_topk_prob into config.moe. If the key is missing, its value is `fallback`.
void read_normalisation(ConfigReader& reader, ModelConfig& config, bool fallback);
// Reads which layers of a Qwen model have experts: every `decoder_sparse_step`-th layer, except
// those in `mlp_only_layers`.
void read_sparse_layers(ConfigReader& reader, ModelConfig& config);

// Sets experts in all layers except the first `dense` ones. config.moe must be present.
void set_dense_layers(ModelConfig& config, int64_t dense);
// Reads which layers have experts: those that `mlp_layer_types` marks "sparse" or, without this
// key, all layers except the first `dense` ones.
void read_mlp_layer_types(ConfigReader& reader, ModelConfig& config, int64_t dense);

// Returns the value of the key, which must be a number from 1e-9 to 1e9. Returns nothing if the key
// is null, and `fallback` if the key is missing.
std::optional<double> read_switchable(ConfigReader& reader, std::string_view key,
                                      std::optional<double> fallback);

// Reads Granite's factors of the embeddings, the attention scores, the outputs of attention and
// feed-forward, and the logits. A missing factor is 1.
void read_granite_factors(ConfigReader& reader, ModelConfig& config);

// Functions that make modules. A module's role determines its kind, input space and output space
// (ModuleKind and Space in spec.h).

// Returns the module of a matrix [out, in].
ModuleSpec matrix(Role role, std::string_view name, int64_t out, int64_t in, bool bias = false);
// Returns the module with its weight stored [in, out], as in GPT-2's Conv1D.
ModuleSpec conv1d(ModuleSpec module);
// Returns the module of a vector, for example of attention sinks. `leaf` is the parameter's name
// within the module.
ModuleSpec vector(Role role, std::string_view name, std::string_view leaf, int64_t size, Init init);
// Returns a module with a tensor [experts, out, in], the matrices of all experts.
ModuleSpec stacked_experts(const ModelConfig& config, Role role, std::string_view name, int64_t out,
                           int64_t in);
// Returns the module with OtherCut::kRows, whose slices have these lengths; empty: one slice.
ModuleSpec cut_by_rows(ModuleSpec module, std::initializer_list<int64_t> slices = {});
// Return a matrix or a vector of role kOther, a part that am-plan counts and am-run does not
// support.
ModuleSpec other(std::string_view name, int64_t out, int64_t in, bool bias = false);
ModuleSpec other_vector(std::string_view name, int64_t size, std::string_view leaf = "weight");
// Adds a depthwise convolution along the sequence, with a kernel of `width` positions, as a module
// of role kOther.
void add_convolution(LayerSpec& layer, std::string_view name, int64_t channels, int64_t width,
                     bool bias = false);
// Returns a norm with the formula of the config's family (a kind of RMSNorm or LayerNorm).
ModuleSpec norm(const ModelConfig& config, Role role, std::string_view name, int64_t size);

// modules_before_layers() returns the embedding and, if `names` contains their names, the learned
// positions and the norm of the embeddings. modules_after_layers() returns the final norm, if
// `names` contains its name, and the head.
std::vector<ModuleSpec> modules_before_layers(const ModelConfig& config, const ModuleNames& names);
std::vector<ModuleSpec> modules_after_layers(const ModelConfig& config, const ModuleNames& names);

// Functions that make layers.

// Returns a layer without modules. Sets the properties that follow from the config: heads, rotary
// embedding, window, activation, residual scale and router.
LayerSpec start_layer(const ModelConfig& config, int64_t layer);

struct AttentionNames {
  std::string_view query = "self_attn.q_proj";
  std::string_view key = "self_attn.k_proj";
  std::string_view value = "self_attn.v_proj";
  std::string_view output = "self_attn.o_proj";
  std::string_view query_norm = "self_attn.q_norm";
  std::string_view key_norm = "self_attn.k_norm";
};
// Adds the projections of queries, keys and values and the output projection, for the heads of
// layer.attention. Also adds norms over queries and keys if the config has them.
void add_attention(const ModelConfig& config, LayerSpec& layer, const AttentionNames& names = {});
// Returns the module of one fused matrix for queries, keys and values. Also sets `fused`, the
// arrangement of the matrix's rows, in layer.attention.
ModuleSpec fused_attention(const ModelConfig& config, std::string_view name,
                           AttentionSpec::Fused fused, LayerSpec& layer);
// Adds multi-head latent attention (DeepSeek). config.o_bias also applies to q_a_proj and
// kv_a_proj_with_mqa.
void add_latent_attention(const ModelConfig& config, LayerSpec& layer);

// Adds one matrix for gate and up, and a down projection, with biases if config.mlp_bias is set.
void add_fused_mlp(const ModelConfig& config, LayerSpec& layer, std::string_view gate_up,
                   std::string_view down);
// Adds an up and a down projection without a gate, with biases if config.mlp_bias is set.
void add_plain_mlp(const ModelConfig& config, LayerSpec& layer, std::string_view up,
                   std::string_view down);
struct GatedNames {
  std::string_view gate = "gate_proj";
  std::string_view up = "up_proj";
  std::string_view down = "down_proj";
};
// Adds a gate, an up and a down projection, for example "mlp.gate_proj" if `name` is "mlp", with
// biases if config.mlp_bias is set.
void add_gated_mlp(const ModelConfig& config, LayerSpec& layer, std::string_view name = "mlp",
                   const GatedNames& names = {});
// add_router() adds the router. add_experts() adds routed experts with separate matrices for gate
// (if config.gated_mlp is set), up and down, and without biases. A matrix is named, for example,
// "mlp.experts.7.gate_proj" if `name` is "mlp.experts".
void add_router(const ModelConfig& config, LayerSpec& layer, std::string_view name,
                bool bias = false);
void add_experts(const ModelConfig& config, LayerSpec& layer, std::string_view name,
                 const GatedNames& names = {});
// Adds Mixtral's router and experts.
void add_mixtral_experts(const ModelConfig& config, LayerSpec& layer);
// Adds the shared experts as one MLP, with a gate if config.gated_mlp and biases if config.mlp_bias
// is set.
void add_shared_experts(const ModelConfig& config, LayerSpec& layer, std::string_view name);
// Adds the shared experts as one matrix for gate and up, and a down projection.
void add_fused_shared_experts(const ModelConfig& config, LayerSpec& layer, std::string_view gate_up,
                              std::string_view down);

// A norm over the hidden state: its role, and its name within the layer. Lists of norms have the
// order of torch's named_parameters().
struct NamedNorm {
  Role role;
  std::string_view name;
};
inline constexpr std::array<NamedNorm, 2> kLlamaNorms = {
    {{Role::kInputNorm, "input_layernorm"},
     {Role::kPreFeedForwardNorm, "post_attention_layernorm"}}};
inline constexpr std::array<NamedNorm, 2> kPostNorms = {
    {{Role::kPostAttentionNorm, "post_attention_layernorm"},
     {Role::kPostFeedForwardNorm, "post_feedforward_layernorm"}}};
inline constexpr std::array<NamedNorm, 4> kSandwichNorms = {
    {{Role::kInputNorm, "input_layernorm"},
     {Role::kPostAttentionNorm, "post_attention_layernorm"},
     {Role::kPreFeedForwardNorm, "pre_feedforward_layernorm"},
     {Role::kPostFeedForwardNorm, "post_feedforward_layernorm"}}};
void add_norms(const ModelConfig& config, LayerSpec& layer, std::span<const NamedNorm> norms);

// llama_layer() returns a layer of Llama with all modules. plain_layer() replaces the gated MLP by
// an up and a down projection. In parallel_layer(), attention and MLP both read the output of a
// single norm. post_norm_layer() returns a layer of OLMo 2, whose norms follow attention and MLP,
// and sandwich_layer() a layer of Gemma 2, which has four norms.
LayerSpec llama_layer(const ModelConfig& config, int64_t layer);
LayerSpec plain_layer(const ModelConfig& config, int64_t layer);
LayerSpec parallel_layer(const ModelConfig& config, int64_t layer);
LayerSpec post_norm_layer(const ModelConfig& config, int64_t layer);
LayerSpec sandwich_layer(const ModelConfig& config, int64_t layer);
// Returns a layer of OPT: a norm before attention, and a norm before an MLP without a gate.
LayerSpec opt_layer(const ModelConfig& config, int64_t layer);
// Returns a layer of Qwen3-MoE: Llama's attention and norms, with "mlp.gate" and "mlp.experts" if
// the layer has experts.
LayerSpec expert_layer(const ModelConfig& config, int64_t layer);
// Returns a layer of Mixtral: Llama's attention and norms, and experts.
LayerSpec mixtral_layer(const ModelConfig& config, int64_t layer);

}  // namespace am::model
