// Adds low-rank adapters (LoRA; Hu et al., 2021) to the description of a model. For each target
// module with a matrix W [out, in], matrices A [rank, in] and B [out, rank] are trained, and the
// module computes
//
//   y = W x + alpha / rank * B (A x)
//
// DoRA (Liu et al., 2024) also trains a magnitude m [out], and the module computes
//
//   y = m / |V| * (V x)   with V = W + alpha / rank * B A
//
// |V| [out] contains the 2-norms of V's rows. Backward treats |V| as a constant.
//
//   Inventory inventory = build_inventory(with_lora(describe(config), {16, 2.0, {"q_proj"}}));
//   // "model.layers.0.self_attn.q_proj.weight", "...q_proj.lora_A.weight", "...lora_B.weight"
//
// A fused matrix (queries, keys and values in one) has one A and one B.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "am/model/spec.h"

namespace am::model {

struct LoraConfig {
  int64_t rank = 0;    // rank of the matrices A and B; 0: the model has no adapters
  double scale = 1.0;  // factor of the adapter's output: alpha / rank; rsLoRA: alpha / sqrt(rank)
  // Each entry is the end of module names (for example "q_proj" or "self_attn.q_proj"), a glob that
  // must match complete names, or "all-linear". As in PEFT, "all-linear" matches every module that
  // can have an adapter, except the head.
  std::vector<std::string> target_modules;
  double dropout = 0.0;
  // Modules whose own weights are trained, in addition to the adapters. Each entry is the end of
  // module names or a glob, as in target_modules.
  std::vector<std::string> modules_to_save = {};
  bool dora = false;
};

// Whether an entry of `modules_to_save` matches the module.
bool is_saved(const std::vector<std::string>& modules_to_save, std::string_view module);

// Returns the description with an AdapterSpec in each target module. Layers that shared one
// LayerSpec but have different targets get different LayerSpecs. Ignores the entries of
// target_modules that find_bad_targets() reports.
DecoderSpec with_lora(DecoderSpec spec, const LoraConfig& lora);

// Whether the module can have an adapter: a linear layer that every token passes, or the gate of
// the shared experts (Role::kSharedWeigher). These modules cannot have one: embeddings, a head that
// is tied to the embedding, norms, routers, routed experts, and modules of role kOther.
bool can_have_adapter(const ModuleSpec& module);

// An invalid entry of target_modules or modules_to_save.
struct BadTarget {
  std::string target;
  // Name of a module that the entry matches; absent: the entry matches no module.
  std::optional<std::string> matched;
  // Reason why the entry cannot apply to the module `matched`, for example "is a routed expert".
  std::string_view why = {};
};
// Returns the entries of target_modules that match no module that can have an adapter.
std::vector<BadTarget> find_bad_targets(const DecoderSpec& spec, const LoraConfig& lora);
// Returns the entries of modules_to_save that match no module with a weight, or that match a module
// with an adapter. `spec` is the result of with_lora().
std::vector<BadTarget> find_bad_saved(const DecoderSpec& spec, const LoraConfig& lora);
// Returns the last name component of each module that can have an adapter, for example "q_proj",
// without duplicates.
std::vector<std::string> legal_targets(const DecoderSpec& spec);

}  // namespace am::model
