// Tests LoRA adapters in a model's description: the modules with an adapter, the names of adapter
// parameters, and their sharding over tp.
#include "am/model/lora.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <set>

#include "am/base/text.h"
#include "am/model/inventory.h"
#include "am/model/tp_plan.h"
#include "family_cases.h"
#include "support/published_model.h"

namespace am::model {
namespace {

Inventory adapted(const std::string& name, std::vector<std::string> targets, int64_t rank = 4) {
  return build_inventory(
      with_lora(describe(test::model_of(name)), {rank, 1.0, std::move(targets)}));
}

// Returns the names of the modules with an adapter. `*` replaces layer numbers.
std::set<std::string> modules_of(const Inventory& inventory) {
  std::set<std::string> modules;
  for (const ParameterSpec& parameter : inventory.parameters) {
    if (parameter.adapter == AdapterPart::kNone) continue;
    modules.insert(any_layer_name(parameter.module(), parameter.layer));
  }
  return modules;
}

}  // namespace

TEST_CASE("an adapter's two matrices follow their module's parameters") {
  const Inventory plain = build_inventory(test::model_of("qwen2.5-0.5b"));
  const Inventory inventory = adapted("qwen2.5-0.5b", {"q_proj"}, 8);
  const std::string module = "model.layers.3.self_attn.q_proj";
  const auto at = std::find_if(inventory.parameters.begin(), inventory.parameters.end(),
                               [&](const auto& each) { return each.name == module + ".weight"; });
  REQUIRE(inventory.parameters.end() - at > 4);
  CHECK(at[1].name == module + ".bias");
  CHECK(at[2].name == module + ".lora_A.weight");
  CHECK(at[2].shape == Shape{8, 896});
  CHECK(at[2].init == Init::kFanIn);
  CHECK(at[3].name == module + ".lora_B.weight");
  CHECK(at[3].shape == Shape{896, 8});
  CHECK(at[3].init == Init::kZeros);
  CHECK(at[3].module() == module);
  CHECK(at[3].leaf() == "lora_B.weight");
  CHECK(at[4].name == "model.layers.3.self_attn.k_proj.weight");
  CHECK(inventory.total() == plain.total() + 24 * 2 * 8 * 896);
  // A layer's FSDP unit includes the layer's adapters.
  for (const Unit& unit : shard_units(inventory)) {
    if (unit.layer != 3) continue;
    CHECK(unit.parameters.size() == shard_units(plain)[4].parameters.size() + 2);
  }
}

TEST_CASE("a matrix of several outputs has one adapter, whichever way it is stored") {
  const Inventory phi3 = adapted("phi-3-mini-4k", {"qkv_proj"});
  CHECK(phi3.find("model.layers.0.self_attn.qkv_proj.lora_A.weight")->shape == Shape{4, 3072});
  CHECK(phi3.find("model.layers.0.self_attn.qkv_proj.lora_B.weight")->shape == Shape{9216, 4});
  const Inventory gpt2 = adapted("gpt2", {"c_attn"});
  CHECK(gpt2.find("transformer.h.0.attn.c_attn.weight")->shape == Shape{768, 2304});
  CHECK(gpt2.find("transformer.h.0.attn.c_attn.lora_A.weight")->shape == Shape{4, 768});
  CHECK(gpt2.find("transformer.h.0.attn.c_attn.lora_B.weight")->shape == Shape{2304, 4});
}

TEST_CASE("targets are ends of names, globs, or all linear layers") {
  using Names = std::set<std::string>;
  CHECK(modules_of(adapted("llama-3.1-8b", {"q_proj", "mlp.up_proj"})) ==
        Names{"model.layers.*.self_attn.q_proj", "model.layers.*.mlp.up_proj"});
  CHECK(modules_of(adapted("gpt2", {"c_proj"})) ==
        Names{"transformer.h.*.attn.c_proj", "transformer.h.*.mlp.c_proj"});
  CHECK(modules_of(adapted("llama-3.1-8b", {"lm_head"})) == Names{"lm_head"});
  CHECK(modules_of(adapted("llama-3.1-8b", {"proj"})).empty());
  CHECK(modules_of(adapted("llama-3.1-8b", {"all-linear"})).size() == 7);
  CHECK(modules_of(adapted("deepseek-v3", {"all-linear"})).count("model.layers.*.mlp.gate") == 0);
  CHECK(modules_of(adapted("deepseek-v3", {"*"})) ==
        Names{"lm_head", "model.layers.*.self_attn.q_a_proj", "model.layers.*.self_attn.q_b_proj",
              "model.layers.*.self_attn.kv_a_proj_with_mqa", "model.layers.*.self_attn.kv_b_proj",
              "model.layers.*.self_attn.o_proj", "model.layers.*.mlp.gate_proj",
              "model.layers.*.mlp.up_proj", "model.layers.*.mlp.down_proj",
              "model.layers.*.mlp.shared_experts.gate_proj",
              "model.layers.*.mlp.shared_experts.up_proj",
              "model.layers.*.mlp.shared_experts.down_proj"});
}

TEST_CASE("layers that are targets differently are different kinds") {
  const DecoderSpec spec =
      with_lora(describe(test::model_of("llama-3.1-8b")),
                {4, 1.0, {"model.layers.[0-3].self_attn.q_proj", "model.layers.0.mlp.*"}});
  REQUIRE(spec.kinds.size() == 3);
  CHECK(spec.kind_of_layer[0] == 0);
  CHECK(spec.kind_of_layer[1] == 1);
  CHECK(spec.kind_of_layer[3] == 1);
  CHECK(spec.kind_of_layer[4] == 2);
  CHECK(spec.kind_of_layer[31] == 2);
  CHECK(sample_inventory(spec).find("model.layers.4.self_attn.q_proj.weight") != nullptr);
}

TEST_CASE("a target without a module that can have an adapter is named, with the reason") {
  const DecoderSpec spec = describe(test::model_of("qwen3-30b-a3b"));
  const auto bad = find_bad_targets(
      spec, {4, 1.0, {"q_proj", "gate_proj", "mlp.gate", "embed_tokens", "q_norm", "nothing"}});
  std::map<std::string, std::string> why;
  for (const BadTarget& each : bad) {
    why[each.target] = each.matched ? cat(*each.matched, " ", each.why) : "";
  }
  CHECK(why == std::map<std::string, std::string>{
                   {"gate_proj", "model.layers.0.mlp.experts.*.gate_proj is a routed expert"},
                   {"mlp.gate", "model.layers.0.mlp.gate is a router"},
                   {"embed_tokens", "model.embed_tokens is an embedding"},
                   {"q_norm", "model.layers.0.self_attn.q_norm is a norm"},
                   {"nothing", ""}});
  CHECK(legal_targets(spec) ==
        std::vector<std::string>{"q_proj", "k_proj", "v_proj", "o_proj", "lm_head"});
  // A head that is tied to the embedding has no matrix of its own to adapt.
  const auto tied =
      find_bad_targets(describe(test::model_of("llama-3.2-1b")), {4, 1.0, {"lm_head"}});
  REQUIRE(tied.size() == 1);
  CHECK(tied[0].why == "shares the embedding's weight");
}

TEST_CASE("modules to save have a weight and no adapter") {
  // Returns "MODULE REASON" for an illegal entry of modules_to_save, or an empty string for a legal
  // entry. MODULE is "nothing" if the entry matches no module.
  const auto problem = [](const ModelConfig& config, const std::string& entry) {
    const LoraConfig lora{4, 1.0, {"q_proj"}, 0.0, {entry}};
    const auto bad = find_bad_saved(with_lora(describe(config), lora), lora);
    return bad.empty() ? std::string() : cat(bad[0].matched.value_or("nothing"), " ", bad[0].why);
  };
  const ModelConfig tied = test::model_of("llama-3.2-1b");
  CHECK(problem(tied, "embed_tokens").empty());
  CHECK(problem(tied, "lm_head") == "lm_head shares the embedding's weight");
  CHECK(problem(tied, "*") == "model.layers.0.self_attn.q_proj has an adapter");
  CHECK(problem(tied, "absent") == "nothing ");
  const ModelConfig olmo = test::config_of(std::string(
      R"({"model_type": "olmo", "hidden_size": 64, "intermediate_size": 96, "vocab_size": 100,
          "num_hidden_layers": 2, "num_attention_heads": 4})"));
  CHECK(problem(olmo, "model.norm") == "model.norm has no weight");
}

TEST_CASE("tp cuts A as W's columns and B as W's rows; what stays whole sums its gradient") {
  const Inventory inventory = adapted("llama-3.1-8b", {"all-linear", "lm_head"});
  const ModelConfig config = test::model_of("llama-3.1-8b");
  for (const bool sequence_parallel : {false, true}) {
    Diagnostics found;
    const ResolvedTpPlan tp =
        resolve_tp_plan(family_tp_plan(config, sequence_parallel), inventory, {}, found);
    REQUIRE(found.ok());
    const auto of = [&](const std::string& name) {
      const auto* spec = inventory.find(name);
      REQUIRE(spec != nullptr);
      return tp.parameters[static_cast<size_t>(spec - inventory.parameters.data())];
    };
    for (const char* colwise :
         {"model.layers.0.self_attn.q_proj", "model.layers.0.mlp.up_proj", "lm_head"}) {
      INFO(colwise);
      const TpParameter a = of(cat(colwise, ".lora_A.weight"));
      const TpParameter b = of(cat(colwise, ".lora_B.weight"));
      CHECK(!a.shard_dim.has_value());
      CHECK(a.grad_sum_over_tp);
      CHECK(b.shard_dim == 0);
      CHECK(!b.grad_sum_over_tp);
    }
    for (const char* rowwise :
         {"model.layers.0.self_attn.o_proj", "model.layers.0.mlp.down_proj"}) {
      INFO(rowwise);
      const TpParameter a = of(cat(rowwise, ".lora_A.weight"));
      const TpParameter b = of(cat(rowwise, ".lora_B.weight"));
      CHECK(a.shard_dim == 1);
      CHECK(!a.grad_sum_over_tp);
      CHECK(!b.shard_dim.has_value());
      CHECK(b.grad_sum_over_tp);
    }
  }
  // Without a rule for lm_head, every rank applies the adapter of lm_head to all tokens, so the
  // gradients need no sum over tp.
  TpPlan plan = family_tp_plan(config, false);
  std::erase_if(plan.rules, [](const TpRule& rule) { return rule.pattern == "lm_head"; });
  Diagnostics found;
  const ResolvedTpPlan tp = resolve_tp_plan(plan, inventory, {}, found);
  const auto* a = inventory.find("lm_head.lora_A.weight");
  CHECK(!tp.parameters[static_cast<size_t>(a - inventory.parameters.data())].grad_sum_over_tp);
}

}  // namespace am::model
