// Counts the FLOPs of a model's training step, by am-plan's convention and by published
// conventions.
//
//   const double flops = train_flops_per_token(config, seq_len) * tokens_per_second;
//   const double mfu = flops / (ranks * peak_flops);
//
// A multiply-add is 2 FLOPs, and backward costs twice as much as forward. Symbols: N is the number
// of parameters that a token passes through, E the number of parameters of the token embedding, L
// the number of layers, h the hidden size, n and k the number of query heads and of key/value
// heads, d the head dim, f the feed-forward's width, V the size of the vocabulary, s the sequence
// length. In the published conventions a layer with a sliding window counts min(window, s) instead
// of s.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "am/model/config.h"
#include "am/model/inventory.h"

namespace am::model {

// Returns the number of parameters that one token passes through: all except those of the routed
// experts to which the token is not routed.
int64_t active_parameters(const ModelConfig& config);
int64_t active_parameters(const ModelConfig& config, const Inventory& inventory);

// Returns the number of parameters of the multi-token-prediction layers (DeepSeek V3), or 0 if the
// model has no such layers. Each layer counts as a decoder layer (one with experts, if the model
// has experts), a projection from 2h to h, and three norms of h weights.
int64_t mtp_parameters(const ModelConfig& config);

// Returns the FLOPs of one token's forward and backward that am-run and am-plan report: 6 (N - E) +
// 12 L n d s, in the symbols at the top of this file. Here E also includes the table of learned
// positions. A token embedding that is tied to the head is not in E, because the head multiplies
// with it. Attention is counted without causal mask and window; recomputation is not counted. This
// is PaLM's formula (Chowdhery et al., 2022, appendix B) without the embedding, as in torchtitan.
// Under MLA, d is the mean of the key and value widths.
double train_flops_per_token(const ModelConfig& config, int64_t seq_len);

// Returns the forward FLOPs of one token for each layer: 2 per weight that the token is multiplied
// with, plus 2 * heads * head dim * min(window, sequence length) for causal attention.
// head_forward_flops() returns the head's forward FLOPs, 2 * vocabulary * hidden size.
std::vector<double> layer_forward_flops(const ModelConfig& config, int64_t seq_len);
double head_forward_flops(const ModelConfig& config);

// The functions below return the forward and backward FLOPs of one token by published conventions,
// for comparison with published figures. The symbols are defined at the top of this file.
//
// torchtitan (its `get_num_flop_per_token`): 6 (N - E) + 12 L n d s, where E includes a token
// embedding that is tied to the head.
double torchtitan_flops_per_token(const ModelConfig& config, int64_t seq_len);
// PaLM, appendix B, as in nanoGPT and llm-foundry: 6 N + 12 L n d s, where N includes the
// embedding.
double palm_flops_per_token(const ModelConfig& config, int64_t seq_len);
// Megatron-Bridge from 25.09 on: 6 L n d s for causal attention, plus 6 per weight of the layers'
// matrices and of the head.
double megatron_bridge_flops_per_token(const ModelConfig& config, int64_t seq_len);
// NVIDIA's DGX Cloud benchmarks, and NeMo up to 24.07: 12 L h^2 (1 + k/n + s/h) + 18 L f h + 6 V h.
// This is 6 per weight of the layers' matrices and of the head, plus 12 L n d s for attention
// without causal mask.
double nvidia_flops_per_token(const ModelConfig& config, int64_t seq_len);
// Korthikanti et al., 2022: 72 L h^2 (1 + s/6h + V/12hL). This is 6 per weight of the layers'
// matrices and of the head, plus 12 L n d s for attention.
double korthikanti_flops_per_token(const ModelConfig& config, int64_t seq_len);

}  // namespace am::model
