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

// Reads attention_bias, which applies to q_proj, k_proj, v_proj and o_proj. `fallback` is the value
// of a missing key.
void read_attention_bias(ConfigReader& reader, ModelConfig& config, bool fallback = false);
// Reads sliding_window of families in which this key alone enables the window. null means no
// window; a missing key means a window of `fallback` positions, or no window if `fallback` is 0.
void read_window(ConfigReader& reader, ModelConfig& config, int64_t fallback);
// Sets which layers have the window. If the config has `layer_types`, those of type
// "sliding_attention" have it; otherwise all layers except every `period`-th.
void read_window_layers(ConfigReader& reader, ModelConfig& config, int64_t period);
// Reads Qwen's sliding window. The window applies only if `use_sliding_window` is true: in the
// layers that `layer_types` marks, or without this key in the layers from `max_window_layers` on.
void read_qwen_window(ConfigReader& reader, ModelConfig& config);
// Sets which layers have the window: in config.window_first_layer if that can express the pattern,
// otherwise in config.window_layers.
void set_window_layers(ModelConfig& config, std::vector<bool> windowed);

// Config keys of a family with experts, and the values of missing keys. A list has alternative
// spellings of one key, of which the first that the config has is read.
struct MoeKeys {
  std::initializer_list<std::string_view> experts;
  int64_t default_experts;
  std::initializer_list<std::string_view> experts_per_token;
  int64_t default_experts_per_token;  // value of a missing key; 0: the key is required
  std::string_view width;             // key of one expert's intermediate size
  int64_t default_width;
};
// Reads the keys into config.moe, which gets experts in all layers. The caller changes `layers` and
// adds shared experts if needed. If `may_be_dense` is set, a config with 0 experts is that of a
// dense model, and config.moe stays empty.
void read_moe(ConfigReader& reader, ModelConfig& config, const MoeKeys& keys,
              bool may_be_dense = false);
// Reads norm_topk_prob into config.moe. `fallback` is the value of a missing key.
void read_normalisation(ConfigReader& reader, ModelConfig& config, bool fallback);
// Reads which layers of a Qwen model have experts: every `decoder_sparse_step`-th layer, except
// those in `mlp_only_layers`.
void read_sparse_layers(ConfigReader& reader, ModelConfig& config);

// Returns the value of the key, which must be a number above 0. Returns nothing if the key is null,
// and `fallback` if the key is missing.
std::optional<double> read_switchable(ConfigReader& reader, std::string_view key,
                                      std::optional<double> fallback);

// Functions that make modules. The kind of a module, its input and output space and its
// initialisation follow from its role.

// Returns the module of a matrix [out, in].
ModuleSpec matrix(Role role, std::string_view name, int64_t out, int64_t in, bool bias = false);
// Returns the module of a vector, for example of attention sinks. `leaf` is the name of the
// parameter within the module.
ModuleSpec vector(Role role, std::string_view name, std::string_view leaf, int64_t size, Init init);
// Returns a norm, of the kind that the config's family uses.
ModuleSpec norm(const ModelConfig& config, Role role, std::string_view name, int64_t size);

std::vector<ModuleSpec> modules_before_layers(const ModelConfig& config, const ModuleNames& names);
std::vector<ModuleSpec> modules_after_layers(const ModelConfig& config, const ModuleNames& names);

// Functions that make layers.

// Returns a layer without modules. Its heads, rotary embedding, window, activation and router are
// those of the config.
LayerSpec start_layer(const ModelConfig& config, int64_t layer);

struct AttentionNames {
  std::string_view output = "self_attn.o_proj";
  std::string_view query_norm = "self_attn.q_norm";
  std::string_view key_norm = "self_attn.k_norm";
};
// Adds self_attn.q_proj, k_proj, v_proj, the output projection, and norms over queries and keys if
// the config has them.
void add_attention(const ModelConfig& config, LayerSpec& layer, const AttentionNames& names = {});
// Returns the module of one matrix for queries, keys and values, arranged as `fused` says, and sets
// the arrangement in `layer`.
ModuleSpec fused_attention(const ModelConfig& config, std::string_view name,
                           AttentionSpec::Fused fused, LayerSpec& layer);
// Adds multi-head latent attention (DeepSeek). config.o_bias also applies to q_a_proj and
// kv_a_proj_with_mqa.
void add_latent_attention(const ModelConfig& config, LayerSpec& layer);

// Adds mlp.gate_proj, mlp.up_proj and mlp.down_proj, with biases if config.mlp_bias is set.
void add_gated_mlp(const ModelConfig& config, LayerSpec& layer);
// Adds an up and a down projection without a gate, with biases if config.mlp_bias is set.
void add_plain_mlp(const ModelConfig& config, LayerSpec& layer, std::string_view up,
                   std::string_view down);
struct GatedNames {
  std::string_view gate = "gate_proj";
  std::string_view up = "up_proj";
  std::string_view down = "down_proj";
};
// add_router() adds the router. add_experts() adds routed experts with separate matrices for gate,
// up and down, for example "mlp.experts.7.gate_proj" if `name` is "mlp.experts".
void add_router(const ModelConfig& config, LayerSpec& layer, std::string_view name,
                bool bias = false);
void add_experts(const ModelConfig& config, LayerSpec& layer, std::string_view name,
                 const GatedNames& names = {});
// Adds the shared experts as one gated MLP, with biases if config.mlp_bias is set.
void add_shared_experts(const ModelConfig& config, LayerSpec& layer, std::string_view name);

// A norm over the hidden state. Lists of them are in the order of torch's named_parameters().
struct NamedNorm {
  Role role;
  std::string_view name;
};
inline constexpr std::array<NamedNorm, 2> kLlamaNorms = {
    {{Role::kInputNorm, "input_layernorm"},
     {Role::kPreFeedForwardNorm, "post_attention_layernorm"}}};
inline constexpr std::array<NamedNorm, 4> kSandwichNorms = {
    {{Role::kInputNorm, "input_layernorm"},
     {Role::kPostAttentionNorm, "post_attention_layernorm"},
     {Role::kPreFeedForwardNorm, "pre_feedforward_layernorm"},
     {Role::kPostFeedForwardNorm, "post_feedforward_layernorm"}}};
void add_norms(const ModelConfig& config, LayerSpec& layer, std::span<const NamedNorm> norms);

// llama_layer() returns the complete layer of Llama; sandwich_layer() that of Gemma 2, with four
// norms.
LayerSpec llama_layer(const ModelConfig& config, int64_t layer);
LayerSpec sandwich_layer(const ModelConfig& config, int64_t layer);

}  // namespace am::model
