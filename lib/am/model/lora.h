// Low-rank adapters (Hu et al., 2021) as a part of a model's description: next to the matrix W of a
// target module, A [rank, in] and B [out, rank] are trained, and the module computes
//
//   y = W x + alpha / rank * B (A x)
//
//   Inventory inventory = build_inventory(with_lora(describe(config), {16, 2.0, {"q_proj"}}));
//   // "model.layers.0.self_attn.q_proj.weight", "...q_proj.lora_A.weight", "...lora_B.weight"
//
// A fused matrix (queries, keys and values in one) has one A and one B.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "am/model/spec.h"

namespace am::model {

struct LoraConfig {
  int64_t rank = 0;
  double scale = 1.0;  // alpha / rank
  // Interpreted as by PEFT: the end of a module's name ("q_proj", "self_attn.q_proj"), a glob over
  // whole names, or "all-linear", which matches every possible target except the head.
  std::vector<std::string> target_modules;
  double dropout = 0.0;
};

// Returns the description with an AdapterSpec in each target. Layers of one kind with different
// targets become different kinds. A target that matches no module adds nothing (find_bad_targets
// reports it).
DecoderSpec with_lora(DecoderSpec spec, const LoraConfig& lora);

// Whether the module can have an adapter: linear layers that every token passes, but not a head
// whose weight is tied to the embedding. Embeddings, norms, routers and routed experts cannot.
bool can_have_adapter(const ModuleSpec& module);

// A target that matches no module that can have an adapter.
struct BadTarget {
  std::string target;
  std::optional<std::string> matched;  // name of a module that it matches but that cannot have one
  std::string_view why = {};           // reason why that module cannot: "is a routed expert"
};
std::vector<BadTarget> find_bad_targets(const DecoderSpec& spec, const LoraConfig& lora);
// Last name components of the modules that can have an adapter: "q_proj", "k_proj", ...
std::vector<std::string> legal_targets(const DecoderSpec& spec);

}  // namespace am::model
