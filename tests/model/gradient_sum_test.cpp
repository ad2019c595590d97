// Checks which gradients are summed over tp, against the tokens and heads to which each rank
// applies each parameter.
#include "am/model/gradient_sum.h"

#include <catch2/catch.hpp>
#include <set>

#include "am/mesh/shard.h"
#include "am/model/inventory.h"
#include "am/model/tp_plan.h"
#include "family_cases.h"

namespace {

using am::Diagnostics;
using am::model::Inventory;
using am::model::LayerSpec;
using am::model::ModelConfig;
using am::model::ModuleKind;
using am::model::ParameterSpec;
using am::model::ResolvedTpPlan;
using am::model::Role;
using am::model::TpPlan;
using am::model::TpStyle;
using am::test::family_cases;

constexpr int64_t kTp = 2;
constexpr int64_t kTokens = 4;
constexpr int64_t kHeads = 2;

// The (token, head) pairs to which a rank applies a parameter. For a parameter that does not act on
// heads, each token is paired with all heads.
using Work = std::set<std::pair<int64_t, int64_t>>;

struct Ranges {
  am::mesh::Extent tokens{0, kTokens};
  am::mesh::Extent heads{0, kHeads};
};

Work work(const Ranges& ranges) {
  Work pairs;
  for (int64_t token = 0; token < ranges.tokens.size; ++token) {
    for (int64_t head = 0; head < ranges.heads.size; ++head) {
      pairs.emplace(ranges.tokens.offset + token, ranges.heads.offset + head);
    }
  }
  return pairs;
}

// Computes which tokens and heads reach each module of a layer on one rank under a plan. Gradients
// are not modelled.
class RankWalk {
 public:
  RankWalk(const Inventory& inventory, const ResolvedTpPlan& plan, bool sequence_parallel,
           int64_t rank)
      : inventory_(inventory), plan_(plan), rank_(rank) {
    if (sequence_parallel) between_.tokens = am::mesh::chunk(kTokens, kTp, rank);
  }

  Work of(const ParameterSpec& parameter) const {
    const auto style = style_of(parameter.layer, parameter.role);
    const Work own_tokens = work({am::mesh::chunk(kTokens, kTp, rank_), {0, kHeads}});
    const bool known = parameter.role != Role::kOther;
    if (known && parameter.module_kind == ModuleKind::kExpert) return own_tokens;
    switch (parameter.role) {
      case Role::kQueryNorm:
      case Role::kSinks:
        return work(after(parameter.layer, Role::kQuery));
      case Role::kKeyNorm:
        return work(after(parameter.layer, Role::kKey));
      case Role::kRouter:
      case Role::kRouterCorrection:
        return own_tokens;
      default:
        // The bias of a row-wise module is added after the sum over tp, to the hidden state between
        // modules.
        return work(style == TpStyle::kColwise || style == TpStyle::kColwiseRep ? Ranges()
                                                                                : between_);
    }
  }

 private:
  std::optional<TpStyle> style_of(int layer, Role role) const {
    for (size_t i = 0; i < inventory_.parameters.size(); ++i) {
      const ParameterSpec& parameter = inventory_.parameters[i];
      if (parameter.layer == layer && parameter.role == role) return plan_.parameters[i].style;
    }
    return std::nullopt;
  }

  // Returns the tokens and heads in a projection's output. A sharded projection gathers the tokens.
  // A column-wise projection also shards the heads.
  Ranges after(int layer, Role role) const {
    const auto own = style_of(layer, role);
    const auto style = own.has_value() ? own : style_of(layer, Role::kQkv);
    Ranges ranges = style.has_value() ? Ranges() : between_;
    const bool cuts_heads = style == TpStyle::kColwise || style == TpStyle::kPackedColwise;
    if (cuts_heads) ranges.heads = am::mesh::chunk(kHeads, kTp, rank_);
    return ranges;
  }

  const Inventory& inventory_;
  const ResolvedTpPlan& plan_;
  int64_t rank_;
  Ranges between_;
};

void check_plan(const ModelConfig& config, const TpPlan& plan) {
  INFO(config.text);
  const Inventory inventory = build_inventory(config);
  Diagnostics found;
  const ResolvedTpPlan resolved = resolve_tp_plan(plan, inventory, {}, found);
  for (const auto& item : found.items()) UNSCOPED_INFO(item.message);
  REQUIRE(found.ok());
  const RankWalk first(inventory, resolved, plan.sequence_parallel, 0);
  const RankWalk last(inventory, resolved, plan.sequence_parallel, kTp - 1);
  for (size_t i = 0; i < inventory.parameters.size(); ++i) {
    const ParameterSpec& parameter = inventory.parameters[i];
    INFO(parameter.name << " " << plan.sequence_parallel);
    const bool cut = resolved.parameters[i].shard_dim.has_value();
    const bool differs = first.of(parameter) != last.of(parameter);
    CHECK(resolved.parameters[i].grad_sum_over_tp == (!cut && differs));
    // A sum over tp must count each (token, head) pair once.
    if (cut || !differs) continue;
    Work both = first.of(parameter);
    both.merge(last.of(parameter));
    CHECK(both.size() == first.of(parameter).size() + last.of(parameter).size());
  }
}

TEST_CASE("gradients are summed over tp where ranks work on different tokens or heads") {
  for (const am::model::Family* family : am::model::families()) {
    for (ModelConfig config : family_cases(family->model_type)) {
      for (const bool sequence_parallel : {false, true}) {
        check_plan(config, family_tp_plan(config, sequence_parallel));
      }
    }
  }
}

// Tests latent attention with a custom plan, in which each rank computes the low-rank vectors of
// its own tokens.
TEST_CASE("under sequence parallelism latent attention's whole projections sum their gradients") {
  for (ModelConfig config : family_cases("deepseek_v3")) {
    TpPlan plan = family_tp_plan(config, false);
    plan.sequence_parallel = true;
    const std::string layers = "model.layers.*.";
    const auto add = [&](Role role, TpStyle style) {
      const LayerSpec layer = describe(config, 0);
      const auto* module = layer.find(role);
      if (module != nullptr) plan.rules.push_back({layers + module->name, style});
    };
    for (const Role role : {Role::kQuery, Role::kQueryUp, Role::kKeyValueUp}) {
      add(role, TpStyle::kColwise);
    }
    add(Role::kAttentionOut, TpStyle::kRowwise);
    for (const Role role : {Role::kInputNorm, Role::kPreFeedForwardNorm, Role::kQueryDownNorm,
                            Role::kKeyValueDownNorm}) {
      add(role, TpStyle::kSequenceParallel);
    }
    plan.rules.push_back({"model.norm", TpStyle::kSequenceParallel});
    check_plan(config, plan);
  }
}

}  // namespace
