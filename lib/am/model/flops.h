// FLOPs of a model's training step, and the conventions by which published figures count them.
//
//   const double flops = train_flops_per_token(config, seq_len) * tokens_per_second;
//   const double mfu = flops / (ranks * peak_flops);
//
// A multiply-add is 2 FLOPs, and backward costs twice forward. Legend: N parameters that a token
// passes through, E of the embedding table, L layers, h hidden_size, n and k query and key/value
// heads of dim d, f the feed-forward's width, V the vocabulary, s positions of a sequence. In the
// published conventions a layer with a window counts min(window, s) instead of s.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "am/model/config.h"
#include "am/model/inventory.h"

namespace am::model {

// Parameters that one token passes through: experts_per_token of the routed experts, the shared
// experts, and everything else.
int64_t active_parameters(const ModelConfig& config);
int64_t active_parameters(const ModelConfig& config, const Inventory& inventory);

// Parameters of the multi-token-prediction layers (DeepSeek V3): for each, one more decoder layer,
// a projection of 2h to h and three norms. 0 if the model has none.
int64_t mtp_parameters(const ModelConfig& config);

// The count that am-run and am-plan report: 6 (N - E) + 12 L n d s for forward and backward of one
// token. E covers every table that is only looked up; a tied table is counted, because the head
// multiplies with it. Attention is counted without causal mask and window; recomputation is not
// counted. This is PaLM's formula (Chowdhery et al., 2022, appendix B) without the embedding, as in
// torchtitan. Under MLA n d uses the mean of the key and value widths.
double train_flops_per_token(const ModelConfig& config, int64_t seq_len);

// Forward FLOPs of one token in each layer, [num_hidden_layers]: 2 per weight that the token is
// multiplied with, plus 2 n d min(window, s) for causal attention. The head's are 2 V h.
std::vector<double> layer_forward_flops(const ModelConfig& config, int64_t seq_len);
double head_forward_flops(const ModelConfig& config);

// Forward and backward FLOPs of one token by published conventions, for comparison with published
// figures.
//
// torchtitan (its `get_num_flop_per_token`): 6 (N - E) + 12 L n d s. E includes a tied table.
double torchtitan_flops_per_token(const ModelConfig& config, int64_t seq_len);
// PaLM, appendix B, as in nanoGPT and llm-foundry: 6 N + 12 L n d s, with the embedding table.
double palm_flops_per_token(const ModelConfig& config, int64_t seq_len);
// Megatron-Bridge from 25.09 on: 6 per weight of a multiplied matrix, including the head, and
// causal attention: 6 L n d s.
double megatron_bridge_flops_per_token(const ModelConfig& config, int64_t seq_len);
// NVIDIA's DGX Cloud benchmarks and NeMo to 24.07: 12 L h^2 (1 + k/n + s/h) + 18 L f h + 6 V h,
// which is 6 per multiplied weight, and attention without causal mask.
double nvidia_flops_per_token(const ModelConfig& config, int64_t seq_len);
// Korthikanti et al., 2022: 72 L h^2 (1 + s/6h + V/12hL), which is 6 per weight of the layers and
// of the head, and 12 L n d s for attention.
double korthikanti_flops_per_token(const ModelConfig& config, int64_t seq_len);

}  // namespace am::model
