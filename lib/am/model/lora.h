// Low-rank adapters (Hu et al., 2021) as a part of a model's description: beside a matrix W of a
// target module A [rank, in] and B [out, rank] are trained, and the module gives
//
//   y = W x + alpha / rank * B (A x)
//
//   Inventory inventory = build_inventory(with_lora(describe(config), {16, 2.0, {"q_proj"}}));
//   // "model.layers.0.self_attn.q_proj.weight", "...q_proj.lora_A.weight", "...lora_B.weight"
//
// A matrix of several outputs (queries, keys and values in one) has one A and one B.
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
  // As PEFT reads them: the end of a module's name ("q_proj", "self_attn.q_proj"), a glob over
  // whole names, or "all-linear", which is every target but the head.
  std::vector<std::string> target_modules;
  double dropout = 0.0;
};

// The description with an AdapterSpec in each target. Layers of one kind that are not targets alike
// become different kinds. A target that no module matches adds nothing (find_bad_targets).
DecoderSpec with_lora(DecoderSpec spec, const LoraConfig& lora);

// Linear layers that every token passes: no embedding, norm, router or routed expert, and no head
// whose weight is the embedding's.
bool can_have_adapter(const ModuleSpec& module);

// A target that matches no module which can have an adapter.
struct BadTarget {
  std::string target;
  std::optional<std::string> matched;  // a module that it does match, and that cannot: its name
  std::string_view why = {};           // ... because it "is a routed expert"
};
std::vector<BadTarget> find_bad_targets(const DecoderSpec& spec, const LoraConfig& lora);
// Last components of the names of modules that can: "q_proj", "k_proj", ...
std::vector<std::string> legal_targets(const DecoderSpec& spec);

}  // namespace am::model
