#include "am/compat/hf_tp_plan.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <utility>

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

constexpr std::string_view kNoPlan = "transformers has no tensor-parallel plan for it";
constexpr std::string_view kEmbedding = "the plan in transformers cuts only the embedding";
constexpr std::string_view kLatent =
    "the plan in transformers does not cut latent attention, and cuts routed experts, which "
    "automesh distributes by expert parallelism";

constexpr std::array<Absent, 8> kAbsent = {{
    {"gpt2", kNoPlan},
    {"falcon", kNoPlan},
    {"gpt_oss", kEmbedding},
    {"stablelm", kNoPlan},
    {"opt", kNoPlan},
    {"hunyuan_v1_dense", kEmbedding},
    {"deepseek_v2", kLatent},
    {"deepseek_v3", kLatent},
}};

// Modules whose style in transformers' plan differs from automesh's plan of the family. For Phi-3
// and GLM, transformers gathers the outputs of fused projections, whereas automesh shards each
// fused part. For OLMo 2, OLMo 3, OLMoE and MiniMax-M2, transformers gathers the outputs of
// projections, because these models normalise all heads together. transformers lists no styles for
// the shared expert of Qwen2 MoE, and none for the norms of queries and keys of Phi and GLM-4.5,
// whose gradients are summed over tp nevertheless (model/tp_plan.h).
struct OwnStyle {
  std::string_view family;
  std::string_view module;
  std::optional<TpStyle> style;  // style in transformers' plan; nullopt: the plan lacks the module
};

constexpr std::array<OwnStyle, 31> kOwnStyles = {{
    {"phi3", "model.layers.*.self_attn.qkv_proj", TpStyle::kColwiseRep},
    {"phi3", "model.layers.*.self_attn.o_proj", TpStyle::kRowwiseRep},
    {"phi3", "model.layers.*.mlp.gate_up_proj", TpStyle::kColwiseRep},
    {"phi3", "model.layers.*.mlp.down_proj", TpStyle::kRowwiseRep},
    {"olmo2", "model.layers.*.self_attn.q_proj", TpStyle::kColwiseRep},
    {"olmo2", "model.layers.*.self_attn.k_proj", TpStyle::kColwiseRep},
    {"olmo2", "model.layers.*.self_attn.v_proj", TpStyle::kColwiseRep},
    {"olmo2", "model.layers.*.self_attn.o_proj", TpStyle::kRowwiseRep},
    {"olmo3", "model.layers.*.self_attn.q_proj", TpStyle::kColwiseRep},
    {"olmo3", "model.layers.*.self_attn.k_proj", TpStyle::kColwiseRep},
    {"olmo3", "model.layers.*.self_attn.v_proj", TpStyle::kColwiseRep},
    {"olmo3", "model.layers.*.self_attn.o_proj", TpStyle::kRowwiseRep},
    {"olmoe", "model.layers.*.self_attn.q_proj", TpStyle::kColwiseRep},
    {"olmoe", "model.layers.*.self_attn.k_proj", TpStyle::kColwiseRep},
    {"olmoe", "model.layers.*.self_attn.v_proj", TpStyle::kColwiseRep},
    {"olmoe", "model.layers.*.self_attn.o_proj", TpStyle::kRowwiseRep},
    {"minimax_m2", "model.layers.*.self_attn.q_proj", TpStyle::kColwiseRep},
    {"minimax_m2", "model.layers.*.self_attn.k_proj", TpStyle::kColwiseRep},
    {"minimax_m2", "model.layers.*.self_attn.v_proj", TpStyle::kColwiseRep},
    {"minimax_m2", "model.layers.*.self_attn.o_proj", TpStyle::kRowwiseRep},
    {"glm", "model.layers.*.mlp.gate_up_proj", TpStyle::kColwiseRep},
    {"glm", "model.layers.*.mlp.down_proj", TpStyle::kRowwiseRep},
    {"glm4", "model.layers.*.mlp.gate_up_proj", TpStyle::kColwiseRep},
    {"glm4", "model.layers.*.mlp.down_proj", TpStyle::kRowwiseRep},
    {"glm4_moe", "model.layers.*.self_attn.q_norm", std::nullopt},
    {"glm4_moe", "model.layers.*.self_attn.k_norm", std::nullopt},
    {"qwen2_moe", "model.layers.*.mlp.shared_expert.gate_proj", std::nullopt},
    {"qwen2_moe", "model.layers.*.mlp.shared_expert.up_proj", std::nullopt},
    {"qwen2_moe", "model.layers.*.mlp.shared_expert.down_proj", std::nullopt},
    {"phi", "model.layers.*.self_attn.q_layernorm", std::nullopt},
    {"phi", "model.layers.*.self_attn.k_layernorm", std::nullopt},
}};

const OwnStyle* own_style(std::string_view family, std::string_view module) {
  const auto own = std::find_if(kOwnStyles.begin(), kOwnStyles.end(), [&](const OwnStyle& each) {
    return each.family == family && each.module == module;
  });
  return own == kOwnStyles.end() ? nullptr : &*own;
}

}  // namespace

model::TpPlan get_hf_tp_shard_plan(const model::ModelConfig& config) {
  const std::string_view family = model::family_of(config).model_type;
  for (const Absent& absent : kAbsent) {
    if (absent.family != family) continue;
    throw Error(ErrorKind::kPlan,
                cat("no Hugging Face tensor-parallel plan for ", family, ": ", absent.why),
                "set tp_plan = \"auto\" or to your own table, or set tp_size = 1");
  }
  model::TpPlan plan;
  plan.source = cat("Hugging Face's plan of ", family);
  for (model::TpRule& rule : model::family_tp_plan(config, false).rules) {
    const OwnStyle* own = own_style(family, rule.pattern);
    if (own != nullptr && !own->style) continue;
    if (own != nullptr) rule.style = *own->style;
    plan.rules.push_back(std::move(rule));
  }
  return plan;
}

}  // namespace am::compat
