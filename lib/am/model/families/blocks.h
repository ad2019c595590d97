// The building blocks that families are composed of: what their layers hold, and how it is read.
//
//   void add_layer(const ModelConfig& config, int64_t, InventoryBuilder& builder) {
//     add_attention(config, builder);
//     add_gated_mlp(config, builder, "mlp", config.intermediate_size);
//     add_norms(config, builder, {"input_layernorm", "post_attention_layernorm"});
//   }
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "am/model/config_reader.h"
#include "am/model/inventory_builder.h"

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
// Qwen's choice of layers: every `decoder_sparse_step`-th, but for `mlp_only_layers`.
void read_sparse_layers(ConfigReader& reader, ModelConfig& config);

// Parameters of one layer.

struct AttentionNames {
  std::string_view output = "self_attn.o_proj";
  std::string_view query_norm = "self_attn.q_norm";
  std::string_view key_norm = "self_attn.k_norm";
};
// self_attn.q_proj, k_proj, v_proj, the output, and norms over queries and keys.
void add_attention(const ModelConfig& config, InventoryBuilder& builder,
                   const AttentionNames& names = {});
// Multi-head latent attention (DeepSeek). config.o_bias: biases of q_a_proj, of
// kv_a_proj_with_mqa and of o_proj.
void add_mla(const ModelConfig& config, InventoryBuilder& builder);

struct GatedNames {
  std::string_view gate = "gate_proj";
  std::string_view up = "up_proj";
  std::string_view down = "down_proj";
};
// gate, up and down with config.mlp_bias.
void add_gated_mlp(const ModelConfig& config, InventoryBuilder& builder, std::string_view module,
                   int64_t width);
// Routed experts, each with its own gate, up and down: "mlp.experts.7.gate_proj".
void add_experts(const ModelConfig& config, InventoryBuilder& builder, std::string_view module,
                 const GatedNames& names = {});
// Norms over the hidden state.
void add_norms(const ModelConfig& config, InventoryBuilder& builder,
               std::initializer_list<std::string_view> modules);

// The whole Llama layer.
void add_llama_layer(const ModelConfig& config, int64_t layer, InventoryBuilder& builder);

}  // namespace am::model
