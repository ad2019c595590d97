// Names of the modules that backward can recompute under Megatron's selective recomputation
// (--recompute-modules).
//
//   const RecomputedModules modules = recomputed_modules({"core_attn", "moe_act"});
//   modules.core_attn;
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace am::config {

// The modules of a layer that backward recomputes. A member has no effect on layers that do not
// have its module.
struct RecomputedModules {
  bool core_attn = false;       // attention's scores, softmax and product with the values
  bool mlp = false;             // the feed-forward of layers without experts
  bool layernorm = false;       // both norms of a layer
  bool moe = false;             // the feed-forward of layers with experts: router to outputs
  bool moe_act = false;         // the activation between an expert's two matrices
  bool mla_up_proj = false;     // MLA's projections from the latents to heads, and their rotation
  bool shared_experts = false;  // the experts that process every token

  bool operator==(const RecomputedModules&) const = default;
};

// Returns Megatron's names of the members, in their order.
std::span<const std::string_view> recompute_module_names();

// Returns the modules with these names; an empty list is core_attn, Megatron's default. Unknown
// names are ignored (the rule "strategy.recompute" reports them).
RecomputedModules recomputed_modules(const std::vector<std::string>& names);

}  // namespace am::config
