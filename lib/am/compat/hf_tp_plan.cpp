#include "am/compat/hf_tp_plan.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>

#include "am/base/error.h"
#include "am/base/text.h"
#include "am/model/family.h"

namespace am::compat {
namespace {

using model::TpStyle;

struct Absent {
  std::string_view family;
  std::string_view why;
};

constexpr std::string_view kNoPlan = "transformers has no plan for this family";
constexpr std::string_view kEmbedding = "the plan in transformers shards only the embedding";
constexpr std::string_view kExperts =
    "the plan in transformers shards only routed experts, which automesh distributes by expert "
    "parallelism";
constexpr std::string_view kLatent =
    "the plan in transformers does not shard latent attention; it shards routed experts, which "
    "automesh distributes by expert parallelism";

constexpr std::array<Absent, 12> kAbsent = {{
    {"gpt2", kNoPlan},
    {"falcon", kNoPlan},
    {"gpt_oss", kEmbedding},
    {"stablelm", kNoPlan},
    {"opt", kNoPlan},
    {"bloom", kNoPlan},
    {"mpt", kNoPlan},
    {"hunyuan_v1_dense", kEmbedding},
    {"hunyuan_v1_moe", kExperts},
    {"granitemoe", kExperts},
    {"deepseek_v2", kLatent},
    {"deepseek_v3", kLatent},
}};

// Modules for which transformers' plan of a family has no rule: the shared expert of Qwen2 MoE, and
// the norms of queries and keys of Phi and GLM-4.5. model::resolve_tp_plan() determines that the
// gradients of these norms are summed over tp, even without a rule.
struct Lacking {
  std::string_view family;
  std::string_view module;  // name within the layer
};

constexpr std::array<Lacking, 7> kLacking = {{
    {"qwen2_moe", "mlp.shared_expert.gate_proj"},
    {"qwen2_moe", "mlp.shared_expert.up_proj"},
    {"qwen2_moe", "mlp.shared_expert.down_proj"},
    {"phi", "self_attn.q_layernorm"},
    {"phi", "self_attn.k_layernorm"},
    {"glm4_moe", "self_attn.q_norm"},
    {"glm4_moe", "self_attn.k_norm"},
}};

bool is_lacking(std::string_view family, std::string_view module) {
  return std::any_of(kLacking.begin(), kLacking.end(), [&](const Lacking& each) {
    return each.family == family && each.module == module;
  });
}

// Returns the style of a module in transformers' plan if it differs from automesh's. transformers
// gathers the outputs of fused projections, whereas automesh shards each fused part. transformers
// also gathers queries, keys and values that are normalised over all heads together.
std::optional<TpStyle> own_style(const model::LayerSpec& layer, model::Role role) {
  using model::Role;
  const bool gathers_heads = layer.attention.norms_span_heads ||
                             layer.attention.fused == model::AttentionSpec::Fused::kConcatenated;
  switch (role) {
    case Role::kQuery:
    case Role::kKey:
    case Role::kValue:
    case Role::kQkv:
      return gathers_heads ? std::optional(TpStyle::kColwiseRep) : std::nullopt;
    case Role::kAttentionOut:
      return gathers_heads ? std::optional(TpStyle::kRowwiseRep) : std::nullopt;
    case Role::kGateUp:
      return TpStyle::kColwiseRep;
    case Role::kDown:
      return layer.has(Role::kGateUp) ? std::optional(TpStyle::kRowwiseRep) : std::nullopt;
    default:
      return std::nullopt;
  }
}

}  // namespace

model::TpPlan get_hf_tp_shard_plan(const model::ModelConfig& config) {
  const std::string_view family = model::family_of(config).model_type;
  for (const Absent& absent : kAbsent) {
    if (absent.family != family) continue;
    throw Error(ErrorKind::kPlan,
                cat("the model family ", family,
                    " cannot use a tensor-parallel plan of Hugging Face: ", absent.why),
                "set tp_plan = \"auto\" or to your own table, or set tp_size = 1");
  }
  model::TpPlan plan = model::family_tp_plan(config, false);
  plan.source = cat("Hugging Face's plan of ", family);
  const model::DecoderSpec spec = model::describe(config);
  for (const model::LayerSpec& layer : spec.kinds) {
    for (const model::ModuleSpec& module : layer.modules) {
      const auto rule =
          std::find_if(plan.rules.begin(), plan.rules.end(), [&](const model::TpRule& each) {
            return each.pattern == cat(spec.names.layers, ".*.", module.name);
          });
      if (rule == plan.rules.end()) continue;
      if (is_lacking(family, module.name)) {
        plan.rules.erase(rule);
      } else if (const auto style = own_style(layer, module.role)) {
        rule->style = *style;
      }
    }
  }
  return plan;
}

}  // namespace am::compat
