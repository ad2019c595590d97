// The modules of a layer that selective activation recomputation of the strategy megatron can
// recompute in backward, and their names. All but mlp_act are modules of Megatron's
// --recompute-modules.
//
//   const RecomputedModules modules = recomputed_modules({"core_attn", "moe_act"});
//   modules.core_attn;
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace am::config {

// Modules that backward recomputes in each layer. A member has no effect on a layer that lacks the
// member's module.
struct RecomputedModules {
  bool core_attn = false;       // attention: scores, softmax, and product with the values
  bool mlp = false;             // the feed-forward of layers without experts
  bool layernorm = false;       // both norms of a layer
  bool moe = false;             // the feed-forward of layers with experts, router included
  bool mlp_act = false;         // the activation between mlp's two matrices
  bool moe_act = false;         // the activation between an expert's two matrices
  bool mla_up_proj = false;     // MLA's projections from latents to heads, and RoPE on the heads
  bool shared_experts = false;  // the experts that process every token

  bool operator==(const RecomputedModules&) const = default;
};

// Returns the name of each member of RecomputedModules, in the order of the members.
std::span<const std::string_view> recompute_module_names();

// Returns the modules with these names. An empty list selects core_attn, as in Megatron. Unknown
// names are ignored.
RecomputedModules recomputed_modules(const std::vector<std::string>& names);

}  // namespace am::config
