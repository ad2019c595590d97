// The building blocks that families are composed of: what their layers hold, and how it is read.
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

// attention_bias: biases of q_proj, k_proj, v_proj and o_proj.
void read_attention_bias(ConfigReader& reader, ModelConfig& config, bool fallback = false);
// sliding_window of a family where the key alone switches it on: null is off, a missing key means
// `fallback` (0: off).
void read_window(ConfigReader& reader, ModelConfig& config, int64_t fallback);
// Which layers look through the window: `layer_types` when the config has it ("sliding_attention"
// or "full_attention" for each layer), else every layer but each `period`-th.
void read_window_layers(ConfigReader& reader, ModelConfig& config, int64_t period);
// Qwen's sliding window: `sliding_window` counts only with `use_sliding_window`, and then from
// layer `max_window_layers` on, or where `layer_types` says so.
void read_qwen_window(ConfigReader& reader, ModelConfig& config);
// Marks layers in the config, as window_first_layer where that can say it.
void set_window_layers(ModelConfig& config, std::vector<bool> windowed);

// The keys of a mixture of experts, and what their absence means.
struct MoeKeys {
  std::initializer_list<std::string_view> experts;  // spellings, the first present one counts
  int64_t default_experts;
  std::initializer_list<std::string_view> experts_per_token;
  int64_t default_experts_per_token;  // 0: the key is required
  std::string_view width;
  int64_t default_width;
};
// Reads config.moe, all layers with experts; `layers` and the shared experts are the caller's.
// Zero experts, where `may_be_dense`: a dense model, and no config.moe.
void read_moe(ConfigReader& reader, ModelConfig& config, const MoeKeys& keys,
              bool may_be_dense = false);
// norm_topk_prob; without it `fallback`.
void read_normalisation(ConfigReader& reader, ModelConfig& config, bool fallback);
// Qwen's choice of layers: every `decoder_sparse_step`-th, but for `mlp_only_layers`.
void read_sparse_layers(ConfigReader& reader, ModelConfig& config);

// A number above 0 that null switches off; a missing key means `fallback`.
std::optional<double> read_switchable(ConfigReader& reader, std::string_view key,
                                      std::optional<double> fallback);

// Modules. A module's kind, the spaces that it stands between and how it begins follow from its
// role.

// A matrix [out, in].
ModuleSpec matrix(Role role, std::string_view name, int64_t out, int64_t in, bool bias = false);
// A vector that is a parameter `leaf` of its module, as attention sinks are.
ModuleSpec vector(Role role, std::string_view name, std::string_view leaf, int64_t size, Init init);
// A norm as the config's family has them.
ModuleSpec norm(const ModelConfig& config, Role role, std::string_view name, int64_t size);

std::vector<ModuleSpec> modules_before_layers(const ModelConfig& config, const ModuleNames& names);
std::vector<ModuleSpec> modules_after_layers(const ModelConfig& config, const ModuleNames& names);

// Layers.

// What the config alone says of a layer: its heads and their rotation, its window, its activation,
// its router.
LayerSpec start_layer(const ModelConfig& config, int64_t layer);

struct AttentionNames {
  std::string_view output = "self_attn.o_proj";
  std::string_view query_norm = "self_attn.q_norm";
  std::string_view key_norm = "self_attn.k_norm";
};
// self_attn.q_proj, k_proj, v_proj, the output, and norms over queries and keys.
void add_attention(const ModelConfig& config, LayerSpec& layer, const AttentionNames& names = {});
// One matrix of queries, keys and values.
ModuleSpec fused_attention(const ModelConfig& config, std::string_view name,
                           AttentionSpec::Fused fused, LayerSpec& layer);
// Multi-head latent attention (DeepSeek). config.o_bias: biases of q_a_proj, of
// kv_a_proj_with_mqa and of o_proj.
void add_latent_attention(const ModelConfig& config, LayerSpec& layer);

// mlp.gate_proj, up_proj and down_proj with config.mlp_bias.
void add_gated_mlp(const ModelConfig& config, LayerSpec& layer);
// Up and down without a gate, with config.mlp_bias.
void add_plain_mlp(const ModelConfig& config, LayerSpec& layer, std::string_view up,
                   std::string_view down);
struct GatedNames {
  std::string_view gate = "gate_proj";
  std::string_view up = "up_proj";
  std::string_view down = "down_proj";
};
// A router, and routed experts, each with its own gate, up and down: "mlp.experts.7.gate_proj".
void add_router(const ModelConfig& config, LayerSpec& layer, std::string_view name,
                bool bias = false);
void add_experts(const ModelConfig& config, LayerSpec& layer, std::string_view name,
                 const GatedNames& names = {});
// The shared experts as one gated MLP, with config.mlp_bias.
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

// The whole Llama layer, and Gemma 2's with its four norms.
LayerSpec llama_layer(const ModelConfig& config, int64_t layer);
LayerSpec sandwich_layer(const ModelConfig& config, int64_t layer);

}  // namespace am::model
