#include "am/planner/cost/implementation.h"

#include <algorithm>

namespace am::planner {
namespace {

// Note [Bytes of an implementation]: Megatron's 18 bytes a parameter (bf16 with a float32 gradient
// and master copy) and its activations after Korthikanti et al., 2022, without dropout: 10 h for
// two norms, their outputs and the residual. FSDP2 keeps float32 shards. Eager PyTorch keeps
// silu(gate) beside gate, up and their product, and float32 copies in its norms. am-run's fused
// operators (nn/fused/) keep gate and up alone, and the gradient of the logits takes their place.
const std::vector<Implementation>& table() {
  static const std::vector<Implementation> kTable = {
      {.name = "automesh",
       .description = "am-run",
       .eager = true,
       .states_in_storage = true,
       .hidden_bytes = 8.0,
       .gated_bytes = 4.0,
       .logits_bytes = 2.0},
      {.name = "torchtitan",
       .description = "torchtitan and other FSDP2 trainers, compiled",
       .also = {"torchtitan", "NeMo AutoModel (FSDP2)"},
       .overlaps_tp = true,
       .states_in_storage = true,
       .hidden_bytes = 12.0,
       .gated_bytes = 6.0,
       .logits_bytes = 10.0,
       .reserved = 1.12},
      {.name = "pytorch",
       .description = "eager PyTorch with FSDP2",
       .also = {"torchtitan (eager)"},
       .eager = true,
       .states_in_storage = true,
       .hidden_bytes = 16.0,
       .gated_bytes = 8.0,
       .logits_bytes = 12.0,
       .reserved = 1.12},
      {.name = "llm-foundry",
       .description = "llm-foundry and Composer on FSDP1",
       .also = {"llm-foundry/composer FSDP1"},
       .reduce_bytes = 2.0,
       .states_in_storage = true,
       .hidden_bytes = 12.0},
      {.name = "megatron",
       .description = "Megatron-LM with Transformer Engine",
       .also = {"Megatron-Core"},
       .overlaps_tp = true,
       .pads_vocabulary = true},
      {.name = "nemo",
       .description = "NeMo on Megatron-Core, tuned by NVIDIA",
       .also = {"NeMo/Megatron-Core"},
       .overlaps_tp = true,
       .pads_vocabulary = true},
      {.name = "megatron-bridge",
       .description = "Megatron-Bridge, tuned by NVIDIA",
       .also = {"Megatron-Bridge"},
       .overlaps_tp = true,
       .pads_vocabulary = true},
      {.name = "megatron-deepspeed",
       .description = "Megatron-DeepSpeed of 2021, without fused attention",
       .also = {"Megatron-DeepSpeed"},
       .unfused_attention = true,
       .old_launch = true,
       .reduce_bytes = 2.0,
       .gradient_bytes = 2.0,
       .reserved = 1.25,
       .pads_vocabulary = true},
      {.name = "internevo",
       .description = "InternEvo",
       .also = {"InternEvo"},
       .gradient_bytes = 2.0},
      {.name = "galvatron",
       .description = "Galvatron on Megatron's modules",
       .also = {"Galvatron (Megatron modules)"},
       .gradient_bytes = 2.0,
       .hidden_bytes = 32.0,
       .gated_bytes = 8.0,
       .logits_gradient_bytes = 8.0,
       .mask_bytes = 8.0},
      {.name = "maxtext", .description = "MaxText (JAX)", .also = {"MaxText (JAX)"}},
      {.name = "paxml", .description = "PaxML (JAX)", .also = {"PaxML (JAX)"}},
  };
  return kTable;
}

}  // namespace

std::span<const Implementation> implementations() { return table(); }

const Implementation* find_implementation(std::string_view name) {
  for (const Implementation& row : table()) {
    if (row.name == name || std::find(row.also.begin(), row.also.end(), name) != row.also.end()) {
      return &row;
    }
  }
  return nullptr;
}

const Implementation& automesh_implementation() { return table().front(); }

}  // namespace am::planner
