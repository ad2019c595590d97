// Building blocks of families: functions that read config keys, and functions that add modules to a
// layer.
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

// Reading.

// Reads attention_bias, which applies to q_proj, k_proj, v_proj and o_proj.
void read_attention_bias(ConfigReader& reader, ModelConfig& config, bool fallback = false);
// Reads sliding_window of families in which this key alone enables the window: null disables it, a
// missing key means `fallback` (0: no window).
void read_window(ConfigReader& reader, ModelConfig& config, int64_t fallback);
// Sets which layers have the window: from `layer_types` if present ("sliding_attention" or
// "full_attention" per layer), else all layers except every `period`-th.
void read_window_layers(ConfigReader& reader, ModelConfig& config, int64_t period);
// Reads Qwen's sliding window: `sliding_window` applies only with `use_sliding_window`, in layers
// from `max_window_layers` on, or in those that `layer_types` lists.
void read_qwen_window(ConfigReader& reader, ModelConfig& config);
// Stores which layers have the window, as window_first_layer if that can express it.
void set_window_layers(ModelConfig& config, std::vector<bool> windowed);

// Config keys of a mixture of experts, and the values of missing keys.
struct MoeKeys {
  // Alternative spellings; the first present one is read.
  std::initializer_list<std::string_view> experts;
  int64_t default_experts;
  std::initializer_list<std::string_view> experts_per_token;
  int64_t default_experts_per_token;  // 0: the key is required
  std::string_view width;
  int64_t default_width;
};
// Reads config.moe with experts in all layers; the caller sets `layers` and the shared experts. If
// `may_be_dense`, zero experts mean a dense model, without config.moe.
void read_moe(ConfigReader& reader, ModelConfig& config, const MoeKeys& keys,
              bool may_be_dense = false);
// Reads norm_topk_prob.
void read_normalisation(ConfigReader& reader, ModelConfig& config, bool fallback);
// Reads Qwen's choice of MoE layers: every `decoder_sparse_step`-th, except `mlp_only_layers`.
void read_sparse_layers(ConfigReader& reader, ModelConfig& config);

// Reads a number above 0. null disables it and returns nothing; a missing key returns `fallback`.
std::optional<double> read_switchable(ConfigReader& reader, std::string_view key,
                                      std::optional<double> fallback);

// Modules. A module's kind, input and output space and initialisation follow from its role.

// Returns a matrix [out, in].
ModuleSpec matrix(Role role, std::string_view name, int64_t out, int64_t in, bool bias = false);
// Returns a vector whose parameter in its module is named `leaf`, such as attention sinks.
ModuleSpec vector(Role role, std::string_view name, std::string_view leaf, int64_t size, Init init);
// Returns a norm of the config's family.
ModuleSpec norm(const ModelConfig& config, Role role, std::string_view name, int64_t size);

std::vector<ModuleSpec> modules_before_layers(const ModelConfig& config, const ModuleNames& names);
std::vector<ModuleSpec> modules_after_layers(const ModelConfig& config, const ModuleNames& names);

// Layers.

// Returns a layer with the properties that follow from the config alone: heads and their rotation,
// window, activation, router.
LayerSpec start_layer(const ModelConfig& config, int64_t layer);

struct AttentionNames {
  std::string_view output = "self_attn.o_proj";
  std::string_view query_norm = "self_attn.q_norm";
  std::string_view key_norm = "self_attn.k_norm";
};
// Adds self_attn.q_proj, k_proj, v_proj, the output projection, and norms over queries and keys if
// the config has them.
void add_attention(const ModelConfig& config, LayerSpec& layer, const AttentionNames& names = {});
// Returns one matrix for queries, keys and values.
ModuleSpec fused_attention(const ModelConfig& config, std::string_view name,
                           AttentionSpec::Fused fused, LayerSpec& layer);
// Adds multi-head latent attention (DeepSeek). config.o_bias also applies to q_a_proj and
// kv_a_proj_with_mqa.
void add_latent_attention(const ModelConfig& config, LayerSpec& layer);

// Adds mlp.gate_proj, up_proj and down_proj, with biases if config.mlp_bias.
void add_gated_mlp(const ModelConfig& config, LayerSpec& layer);
// Adds an up and a down projection without a gate, with biases if config.mlp_bias.
void add_plain_mlp(const ModelConfig& config, LayerSpec& layer, std::string_view up,
                   std::string_view down);
struct GatedNames {
  std::string_view gate = "gate_proj";
  std::string_view up = "up_proj";
  std::string_view down = "down_proj";
};
// Add a router, and routed experts with separate gate, up and down: "mlp.experts.7.gate_proj".
void add_router(const ModelConfig& config, LayerSpec& layer, std::string_view name,
                bool bias = false);
void add_experts(const ModelConfig& config, LayerSpec& layer, std::string_view name,
                 const GatedNames& names = {});
// Adds the shared experts as one gated MLP, with biases if config.mlp_bias.
void add_shared_experts(const ModelConfig& config, LayerSpec& layer, std::string_view name);

// Norms over the hidden state, in the order of named_parameters().
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

// Complete layers of Llama, and of Gemma 2 with its four norms.
LayerSpec llama_layer(const ModelConfig& config, int64_t layer);
LayerSpec sandwich_layer(const ModelConfig& config, int64_t layer);

}  // namespace am::model
