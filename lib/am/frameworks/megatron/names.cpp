// Names of the tensors of Megatron-core's GPTModel. The format torch_dist contains one tensor per
// layer, or one tensor for all layers; a name without a layer number means all layers. Experts are
// stored in the same two ways. The name of a norm that is fused into a linear layer contains the
// name of this layer: "linear_qkv.layer_norm_weight". The fused QKV matrix contains, for each KV
// group, the rows of the queries, then of the key, then of the value. The gate and up projections
// are one matrix, or two matrices whose names end in weight_w and weight_v.
#include <array>
#include <span>

#include "am/frameworks/name_map.h"

namespace am::frameworks {

namespace {

constexpr std::string_view kTypes = "llama mistral qwen2 qwen3 mixtral qwen2_moe qwen3_moe";
// Model types without experts (kDense) and with experts (kSparse). By default, Megatron stores the
// norm before the feed-forward under one name in models of kDense, and under another name in models
// of kSparse.
constexpr std::string_view kDense = "llama mistral qwen2 qwen3";
constexpr std::string_view kSparse = "mixtral qwen2_moe qwen3_moe";
constexpr std::string_view kExperts = "qwen2_moe qwen3_moe";
constexpr std::string_view kMixtral = "mixtral";
constexpr std::string_view kShared = "qwen2_moe";

constexpr auto kCommon = std::to_array<NameRow>({
    {"model.embed_tokens.weight", "embedding.word_embeddings.weight", Rows::kVocabulary},
    {"model.layers.#.self_attn.q_proj.weight", "decoder.layers.#.self_attention.linear_qkv.weight",
     Rows::kQuery},
    {"model.layers.#.self_attn.k_proj.weight", "decoder.layers.#.self_attention.linear_qkv.weight",
     Rows::kKey},
    {"model.layers.#.self_attn.v_proj.weight", "decoder.layers.#.self_attention.linear_qkv.weight",
     Rows::kValue},
    {"model.layers.#.self_attn.q_proj.bias", "decoder.layers.#.self_attention.linear_qkv.bias",
     Rows::kQuery},
    {"model.layers.#.self_attn.k_proj.bias", "decoder.layers.#.self_attention.linear_qkv.bias",
     Rows::kKey},
    {"model.layers.#.self_attn.v_proj.bias", "decoder.layers.#.self_attention.linear_qkv.bias",
     Rows::kValue},
    {"model.layers.#.self_attn.o_proj.weight",
     "decoder.layers.#.self_attention.linear_proj.weight"},
    {"model.layers.#.self_attn.q_norm.weight",
     "decoder.layers.#.self_attention.q_layernorm.weight"},
    {"model.layers.#.self_attn.k_norm.weight",
     "decoder.layers.#.self_attention.k_layernorm.weight"},
    {"model.layers.#.input_layernorm.weight",
     "decoder.layers.#.self_attention.linear_qkv.layer_norm_weight"},
    {"model.layers.#.input_layernorm.weight", "decoder.layers.#.input_layernorm.weight"},
    {"model.layers.#.post_attention_layernorm.weight", "decoder.layers.#.pre_mlp_layernorm.weight",
     Rows::kAll, kSparse},
    {"model.layers.#.post_attention_layernorm.weight",
     "decoder.layers.#.mlp.linear_fc1.layer_norm_weight"},
    {"model.layers.#.post_attention_layernorm.weight", "decoder.layers.#.pre_mlp_layernorm.weight",
     Rows::kAll, kDense},
    {"model.layers.#.mlp.down_proj.weight", "decoder.layers.#.mlp.linear_fc2.weight"},
    {"model.layers.#.mlp.gate.weight", "decoder.layers.#.mlp.router.weight", Rows::kAll, kExperts},
    {"model.layers.#.block_sparse_moe.gate.weight", "decoder.layers.#.mlp.router.weight",
     Rows::kAll, kMixtral},
    {"model.layers.#.mlp.shared_expert.down_proj.weight",
     "decoder.layers.#.mlp.shared_experts.linear_fc2.weight", Rows::kAll, kShared},
    {"model.layers.#.mlp.shared_expert_gate.weight",
     "decoder.layers.#.mlp.shared_experts.gate_weight", Rows::kAll, kShared},
    {"model.norm.weight", "decoder.final_layernorm.weight"},
    {"lm_head.weight", "output_layer.weight", Rows::kVocabulary},
});

// Entries of the name table for gate and up as separate matrices. fsdp_dtensor always stores them
// separately, torch_dist sometimes.
constexpr auto kApart = std::to_array<NameRow>({
    {"model.layers.#.mlp.gate_proj.weight", "decoder.layers.#.mlp.linear_fc1.weight_w"},
    {"model.layers.#.mlp.up_proj.weight", "decoder.layers.#.mlp.linear_fc1.weight_v"},
    {"model.layers.#.mlp.shared_expert.gate_proj.weight",
     "decoder.layers.#.mlp.shared_experts.linear_fc1.weight_w", Rows::kAll, kShared},
    {"model.layers.#.mlp.shared_expert.up_proj.weight",
     "decoder.layers.#.mlp.shared_experts.linear_fc1.weight_v", Rows::kAll, kShared},
});

// Entries of the name table for torch_dist only (kDist) and for fsdp_dtensor only (kFsdp).
// torch_dist may have gate and up in one matrix. Names of experts differ:
// "experts.experts.3.linear_fc1.weight" in torch_dist, "experts.linear_fc1.weight3_w" in
// fsdp_dtensor.
constexpr auto kDist = std::to_array<NameRow>({
    {"model.layers.#.mlp.gate_proj.weight", "decoder.layers.#.mlp.linear_fc1.weight",
     Rows::kFirstHalf},
    {"model.layers.#.mlp.up_proj.weight", "decoder.layers.#.mlp.linear_fc1.weight",
     Rows::kSecondHalf},
    {"model.layers.#.mlp.shared_expert.gate_proj.weight",
     "decoder.layers.#.mlp.shared_experts.linear_fc1.weight", Rows::kFirstHalf, kShared},
    {"model.layers.#.mlp.shared_expert.up_proj.weight",
     "decoder.layers.#.mlp.shared_experts.linear_fc1.weight", Rows::kSecondHalf, kShared},
    {"model.layers.#.mlp.experts.#.gate_proj.weight",
     "decoder.layers.#.mlp.experts.experts.@.linear_fc1.weight", Rows::kFirstHalf, kExperts},
    {"model.layers.#.mlp.experts.#.up_proj.weight",
     "decoder.layers.#.mlp.experts.experts.@.linear_fc1.weight", Rows::kSecondHalf, kExperts},
    {"model.layers.#.mlp.experts.#.gate_proj.weight",
     "decoder.layers.#.mlp.experts.experts.#.linear_fc1.weight_w", Rows::kAll, kExperts},
    {"model.layers.#.mlp.experts.#.up_proj.weight",
     "decoder.layers.#.mlp.experts.experts.#.linear_fc1.weight_v", Rows::kAll, kExperts},
    {"model.layers.#.mlp.experts.#.down_proj.weight",
     "decoder.layers.#.mlp.experts.experts.@.linear_fc2.weight", Rows::kAll, kExperts},
    {"model.layers.#.block_sparse_moe.experts.#.w1.weight",
     "decoder.layers.#.mlp.experts.experts.@.linear_fc1.weight", Rows::kFirstHalf, kMixtral},
    {"model.layers.#.block_sparse_moe.experts.#.w3.weight",
     "decoder.layers.#.mlp.experts.experts.@.linear_fc1.weight", Rows::kSecondHalf, kMixtral},
    {"model.layers.#.block_sparse_moe.experts.#.w1.weight",
     "decoder.layers.#.mlp.experts.experts.#.linear_fc1.weight_w", Rows::kAll, kMixtral},
    {"model.layers.#.block_sparse_moe.experts.#.w3.weight",
     "decoder.layers.#.mlp.experts.experts.#.linear_fc1.weight_v", Rows::kAll, kMixtral},
    {"model.layers.#.block_sparse_moe.experts.#.w2.weight",
     "decoder.layers.#.mlp.experts.experts.@.linear_fc2.weight", Rows::kAll, kMixtral},
});

constexpr auto kFsdp = std::to_array<NameRow>({
    {"model.layers.#.mlp.experts.#.gate_proj.weight",
     "decoder.layers.#.mlp.experts.linear_fc1.weight#_w", Rows::kAll, kExperts},
    {"model.layers.#.mlp.experts.#.up_proj.weight",
     "decoder.layers.#.mlp.experts.linear_fc1.weight#_v", Rows::kAll, kExperts},
    {"model.layers.#.mlp.experts.#.down_proj.weight",
     "decoder.layers.#.mlp.experts.linear_fc2.weight#", Rows::kAll, kExperts},
    {"model.layers.#.block_sparse_moe.experts.#.w1.weight",
     "decoder.layers.#.mlp.experts.linear_fc1.weight#_w", Rows::kAll, kMixtral},
    {"model.layers.#.block_sparse_moe.experts.#.w3.weight",
     "decoder.layers.#.mlp.experts.linear_fc1.weight#_v", Rows::kAll, kMixtral},
    {"model.layers.#.block_sparse_moe.experts.#.w2.weight",
     "decoder.layers.#.mlp.experts.linear_fc2.weight#", Rows::kAll, kMixtral},
});

// Returns the entries of a format's name table: the entries common to both formats, the format's
// `own` entries, then the entries for separate gate and up. If several entries contain the name of
// a hub tensor, a writer uses the first entry. Gate and up are therefore written as one matrix if
// `own` contains entries for one matrix.
std::vector<NameRow> with_common(std::span<const NameRow> own) {
  std::vector<NameRow> rows(kCommon.begin(), kCommon.end());
  rows.insert(rows.end(), own.begin(), own.end());
  rows.insert(rows.end(), kApart.begin(), kApart.end());
  return rows;
}

}  // namespace

const NameTable& megatron_table() {
  static const NameTable kTable = {.format = "megatron",
                                   .framework = "Megatron",
                                   .types = kTypes,
                                   .rows = with_common(kDist),
                                   .state_before_name = true};
  return kTable;
}

const NameTable& megatron_fsdp_table() {
  static const NameTable kTable = {.format = "megatron-fsdp",
                                   .framework = "Megatron-FSDP",
                                   .types = kTypes,
                                   .rows = with_common(kFsdp)};
  return kTable;
}

}  // namespace am::frameworks
