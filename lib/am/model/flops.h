// Floating-point operations that a model's training step needs, and the conventions by which
// published figures count them.
//
//   mfu = train_flops_per_token(config, seq_len) * tokens_per_second / (ranks * peak_flops)
//
// A multiplication with an addition is 2 operations, and backward costs twice forward. Legend: N
// parameters that a token passes through, E of the embedding table, L layers, h hidden_size, n and
// k query and key/value heads of d, f the feed-forward's width, V the vocabulary, s positions of a
// sequence. In the published conventions a layer with a window counts min(window, s) in place of s.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "am/model/config.h"
#include "am/model/inventory.h"

namespace am::model {

// Parameters that one token passes through: k of E experts, the shared ones, and all else.
int64_t active_parameters(const ModelConfig& config);
int64_t active_parameters(const ModelConfig& config, const Inventory& inventory);

// Parameters of the multi-token-prediction layers (DeepSeek V3), which are trained beside the
// model: one more decoder layer each, a projection of 2h to h and three norms. 0 without them.
int64_t mtp_parameters(const ModelConfig& config);

// What am-run and am-plan count: forward and backward of one token are 6 (N - E) + 12 L n d s,
// where E is every table that is only looked up (a tied one is the head's matrix, and is
// multiplied). Attention is counted as if it were not causal and had no window, and recomputed
// operations are not counted. This is PaLM's formula (Chowdhery et al., 2022, appendix B) without
// the embedding, as torchtitan's. Under MLA n d is the mean of the widths of keys and values.
double train_flops_per_token(const ModelConfig& config, int64_t seq_len);

// Forward of one token through each layer: 2 for each weight that it is multiplied with, and
// 2 n d min(window, s) of causal attention; [num_hidden_layers]. And through the head: 2 V h.
std::vector<double> layer_forward_flops(const ModelConfig& config, int64_t seq_len);
double head_forward_flops(const ModelConfig& config);

// Forward and backward of one token by published conventions, to compare with figures that were
// made by them.
//
// torchtitan (its `get_num_flop_per_token`): 6 (N - E) + 12 L n d s. A tied table is left out too.
double torchtitan_flops_per_token(const ModelConfig& config, int64_t seq_len);
// PaLM, appendix B; nanoGPT and llm-foundry count so too: 6 N + 12 L n d s, the table included.
double palm_flops_per_token(const ModelConfig& config, int64_t seq_len);
// Megatron-Bridge from 25.09 on: 6 for each weight of a matrix that is multiplied, the head
// included, and causal attention: 6 L n d s.
double megatron_bridge_flops_per_token(const ModelConfig& config, int64_t seq_len);
// NVIDIA's DGX Cloud benchmarks and NeMo to 24.07: 12 L h^2 (1 + k/n + s/h) + 18 L f h + 6 V h,
// that is 6 for each multiplied weight and attention as if it were not causal.
double nvidia_flops_per_token(const ModelConfig& config, int64_t seq_len);
// Korthikanti et al., 2022: 72 L h^2 (1 + s/6h + V/12hL), that is 6 for each weight of the layers
// and of the head, and 12 L n d s of attention.
double korthikanti_flops_per_token(const ModelConfig& config, int64_t seq_len);

}  // namespace am::model
