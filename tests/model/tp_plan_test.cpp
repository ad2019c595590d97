#include "am/model/tp_plan.h"

#include <catch2/catch.hpp>

#include "am/base/text.h"
#include "am/model/config.h"
#include "am/model/family.h"
#include "support/published_model.h"

namespace {

using am::Diagnostics;
using am::model::build_inventory;
using am::model::Inventory;
using am::model::ModelConfig;
using am::model::ResolvedTpPlan;
using am::model::TpParameter;
using am::model::TpPlan;
using am::model::TpRule;
using am::model::TpStyle;
using Ids = std::vector<std::string>;

// Returns the config of a published model, reduced to two layers.
ModelConfig two_layers(const std::string& name) {
  ModelConfig config = am::test::model_of(name);
  config.num_hidden_layers = 2;
  return config;
}

const TpParameter& at(const ResolvedTpPlan& resolved, const Inventory& inventory,
                      const std::string& name) {
  for (size_t i = 0; i < inventory.parameters.size(); ++i) {
    if (inventory.parameters[i].name == name) return resolved.parameters[i];
  }
  FAIL("no parameter " << name);
  return resolved.parameters.front();
}

Ids resolve_errors(const TpPlan& plan, const ModelConfig& config, Diagnostics* out = nullptr) {
  Diagnostics found;
  am::model::resolve_tp_plan(plan, build_inventory(config), am::Span{"plan.toml", 3, 1, 1, ""},
                             found);
  Ids ids;
  for (const auto& item : found.items()) {
    UNSCOPED_INFO(item.rule << ": " << item.message << " | " << item.help);
    ids.push_back(item.rule);
  }
  if (out != nullptr) *out = found;
  return ids;
}

TEST_CASE("styles have PyTorch's and Hugging Face's names") {
  CHECK(am::model::parse_tp_style("colwise") == TpStyle::kColwise);
  CHECK(am::model::parse_tp_style("colwise_gather_output") == TpStyle::kColwiseRep);
  CHECK(am::model::parse_tp_style("embedding_rowwise") == TpStyle::kRowwiseRep);
  CHECK(am::model::parse_tp_style("rowwise_split_input") == TpStyle::kRowwiseRep);
  CHECK_FALSE(am::model::parse_tp_style("colwize").has_value());
  for (const std::string& name : am::model::parallel_style_names()) {
    CHECK(am::model::parse_tp_style(name).has_value());
  }
  CHECK(std::string(to_string(TpStyle::kRowwiseRep)) == "rowwise_rep");
  CHECK_THAT(am::model::unknown_style_help("colwize"), Catch::Contains("did you mean \"colwise\""));
  CHECK_THAT(am::model::unknown_style_help("packed_rowwise"),
             Catch::Contains("that automesh does not support"));
}

TEST_CASE("every family's own plan resolves without a complaint") {
  for (const char* name : {"llama-3.1-8b", "llama-3.2-1b", "mistral-7b-v0.3", "qwen2.5-7b",
                           "qwen2.5-0.5b", "qwen3-0.6b", "qwen3-8b"}) {
    for (const bool sequence_parallel : {false, true}) {
      INFO(name << " " << sequence_parallel);
      const ModelConfig config = two_layers(name);
      CHECK(resolve_errors(family_tp_plan(config, sequence_parallel), config).empty());
    }
  }
}

TEST_CASE("llama's plan cuts what the formulas say") {
  const ModelConfig config = two_layers("llama-3.1-8b");
  const Inventory inventory = build_inventory(config);
  Diagnostics found;
  const auto resolved =
      am::model::resolve_tp_plan(family_tp_plan(config, false), inventory, {}, found);
  CHECK(at(resolved, inventory, "model.embed_tokens.weight").shard_dim == 0);
  for (const char* leaf : {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj",
                           "mlp.gate_proj", "mlp.up_proj"}) {
    CHECK(at(resolved, inventory, am::cat("model.layers.1.", leaf, ".weight")).shard_dim == 0);
  }
  CHECK(at(resolved, inventory, "model.layers.1.self_attn.o_proj.weight").shard_dim == 1);
  CHECK(at(resolved, inventory, "model.layers.1.mlp.down_proj.weight").shard_dim == 1);
  CHECK(at(resolved, inventory, "lm_head.weight").shard_dim == 0);
  const auto& norm = at(resolved, inventory, "model.layers.1.input_layernorm.weight");
  CHECK_FALSE(norm.shard_dim.has_value());
  CHECK_FALSE(norm.grad_sum_over_tp);
  CHECK(resolved.matches[1] ==
        Ids{"model.layers.0.self_attn.q_proj", "model.layers.1.self_attn.q_proj"});
}

TEST_CASE("sequence parallel sums the norms' gradients and those of row-wise biases") {
  ModelConfig config = two_layers("llama-3.1-8b");
  config.o_bias = config.mlp_bias = config.qkv_bias = true;
  const Inventory inventory = build_inventory(config);
  for (const bool sequence_parallel : {false, true}) {
    Diagnostics found;
    const auto resolved =
        am::model::resolve_tp_plan(family_tp_plan(config, sequence_parallel), inventory, {}, found);
    for (const char* name :
         {"model.norm.weight", "model.layers.0.input_layernorm.weight",
          "model.layers.0.post_attention_layernorm.weight", "model.layers.0.self_attn.o_proj.bias",
          "model.layers.0.mlp.down_proj.bias"}) {
      INFO(name);
      CHECK_FALSE(at(resolved, inventory, name).shard_dim.has_value());
      CHECK(at(resolved, inventory, name).grad_sum_over_tp == sequence_parallel);
    }
    CHECK(at(resolved, inventory, "model.layers.0.self_attn.q_proj.bias").shard_dim == 0);
    CHECK_FALSE(at(resolved, inventory, "model.layers.0.self_attn.q_proj.bias").grad_sum_over_tp);
  }
}

TEST_CASE("norms over heads sum their gradients whenever heads are cut") {
  const ModelConfig config = two_layers("qwen3-8b");
  const Inventory inventory = build_inventory(config);
  TpPlan plan = family_tp_plan(config, false);
  const auto drop_head_norms = [](const TpRule& rule) {
    return am::ends_with(rule.pattern, "q_norm") || am::ends_with(rule.pattern, "k_norm");
  };
  for (const bool listed : {true, false}) {
    if (!listed)
      plan.rules.erase(std::remove_if(plan.rules.begin(), plan.rules.end(), drop_head_norms),
                       plan.rules.end());
    Diagnostics found;
    const auto resolved = am::model::resolve_tp_plan(plan, inventory, {}, found);
    CHECK(found.empty());
    CHECK(at(resolved, inventory, "model.layers.1.self_attn.q_norm.weight").grad_sum_over_tp);
    CHECK(at(resolved, inventory, "model.layers.1.self_attn.k_norm.weight").grad_sum_over_tp);
  }
  const TpPlan mlp_only{.source = "test",
                        .rules = {{"model.layers.*.mlp.{gate,up}_proj", TpStyle::kColwise},
                                  {"model.layers.*.mlp.down_proj", TpStyle::kRowwise}}};
  Diagnostics found;
  const auto resolved = am::model::resolve_tp_plan(mlp_only, inventory, {}, found);
  CHECK(found.empty());
  CHECK_FALSE(at(resolved, inventory, "model.layers.1.self_attn.q_norm.weight").grad_sum_over_tp);
}

TEST_CASE("the last matching rule wins") {
  const ModelConfig config = two_layers("llama-3.1-8b");
  const Inventory inventory = build_inventory(config);
  TpPlan plan = family_tp_plan(config, false);
  plan.rules.push_back({"lm_head", TpStyle::kColwiseRep});
  Diagnostics found;
  const auto resolved = am::model::resolve_tp_plan(plan, inventory, {}, found);
  CHECK(found.empty());
  CHECK(at(resolved, inventory, "lm_head.weight").style == TpStyle::kColwiseRep);
}

TEST_CASE("a pattern that matches nothing says what was meant") {
  const ModelConfig llama = two_layers("llama-3.1-8b");
  const auto help_of = [&](const std::string& pattern, const ModelConfig& config) {
    TpPlan plan{.source = "test", .rules = {{pattern, TpStyle::kColwise}}};
    Diagnostics found;
    REQUIRE(resolve_errors(plan, config, &found) == Ids{"tp.pattern"});
    CHECK(found.items()[0].span.line == 3);
    return found.items()[0].help;
  };
  CHECK_THAT(help_of("layers.*.mlp.up_proj", llama), Catch::Contains("model.layers.*.mlp.up_proj"));
  CHECK_THAT(help_of("model.layers.*.mlp.up_proj.weight", llama),
             Catch::Contains("not parameters"));
  CHECK_THAT(help_of("model.layers.*.mlp.up_porj", llama),
             Catch::Contains("model.layers.*.mlp.up_proj"));
  CHECK_THAT(help_of("lm_haed", llama), Catch::Contains("lm_head"));
  // The first layer of this model has no experts.
  CHECK_THAT(help_of("model.layers.*.mlp.shared_experts.up_porj", two_layers("deepseek-v2-lite")),
             Catch::Contains("model.layers.*.mlp.shared_experts.up_proj"));
  help_of("", llama);
  help_of("*.*.*.*.*.*.*", llama);
  help_of("model.layers.7.mlp.up_proj", llama);
}

TEST_CASE("a rule's own line is the place of its error") {
  const ModelConfig config = two_layers("llama-3.1-8b");
  TpPlan plan{.source = "tp.toml",
              .rules = {{"nothing", TpStyle::kColwise, am::Span{"tp.toml", 9, 1, 1, ""}}}};
  Diagnostics found;
  resolve_errors(plan, config, &found);
  CHECK(found.items()[0].span.file == "tp.toml");
  CHECK(found.items()[0].span.line == 9);
}

TEST_CASE("styles that do not fit their module") {
  const ModelConfig llama = two_layers("llama-3.1-8b");
  const auto one = [](const char* pattern, TpStyle style) {
    return TpPlan{.source = "test", .rules = {{pattern, style}}};
  };
  CHECK(resolve_errors(one("model.embed_tokens", TpStyle::kColwise), llama) == Ids{"tp.style"});
  CHECK(resolve_errors(one("model.norm", TpStyle::kColwise), llama) == Ids{"tp.style"});
  CHECK(resolve_errors(one("model.norm", TpStyle::kReplicatedWithGradAllreduce), llama) ==
        Ids{"tp.style"});
  CHECK(resolve_errors(one("lm_head", TpStyle::kRowwise), llama) == Ids{"tp.style"});
  CHECK(resolve_errors(one("model.layers.*.mlp.*", TpStyle::kReplicatedWithGradAllreduce), llama) ==
        Ids{"tp.style", "tp.style", "tp.style"});
}

TEST_CASE("a refused style cuts no dimension that is not there") {
  const ModelConfig llama = two_layers("llama-3.1-8b");
  const Inventory inventory = build_inventory(llama);
  const TpPlan norm{.source = "test", .rules = {{"model.norm", TpStyle::kRowwise}}};
  Diagnostics found;
  const auto resolved = am::model::resolve_tp_plan(norm, inventory, {}, found);
  CHECK_FALSE(found.ok());
  CHECK_FALSE(at(resolved, inventory, "model.norm.weight").shard_dim.has_value());
}

TEST_CASE("modules that work together must be cut alike") {
  const ModelConfig llama = two_layers("llama-3.1-8b");
  TpPlan plan = family_tp_plan(llama, false);
  const auto change = [&](const char* pattern, TpStyle style) {
    TpPlan changed = plan;
    changed.rules.push_back({pattern, style});
    return changed;
  };
  CHECK(resolve_errors(change("model.layers.*.self_attn.k_proj", TpStyle::kColwiseRep), llama) ==
        Ids{"tp.pair"});
  CHECK(resolve_errors(change("model.layers.1.mlp.down_proj", TpStyle::kRowwiseRep), llama) ==
        Ids{"tp.pair"});
  CHECK(resolve_errors(change("model.layers.*.mlp.up_proj", TpStyle::kRowwise), llama) ==
        Ids{"tp.pair"});
  CHECK(resolve_errors(change("model.norm", TpStyle::kSequenceParallel), llama) == Ids{"tp.pair"});
  plan.sequence_parallel = true;
  CHECK(resolve_errors(plan, llama) == Ids{"tp.pair", "tp.pair", "tp.pair"});
  const ModelConfig qwen3 = two_layers("qwen3-8b");
  const TpPlan norms_alone{
      .source = "test",
      .rules = {{"model.layers.*.self_attn.q_norm", TpStyle::kReplicatedWithGradAllreduce}}};
  CHECK(resolve_errors(norms_alone, qwen3) == Ids{"tp.pair"});
}

TEST_CASE("a tied head may be named, and follows the embedding") {
  const ModelConfig tied = two_layers("llama-3.2-1b");
  TpPlan plan = family_tp_plan(tied, false);
  plan.rules.push_back({"lm_head", TpStyle::kColwise});
  CHECK(resolve_errors(plan, tied).empty());
  const TpPlan head_alone{.source = "test", .rules = {{"lm_head", TpStyle::kColwise}}};
  CHECK(resolve_errors(head_alone, tied) == Ids{"tp.pair"});
}

TEST_CASE("an empty plan is no tensor parallelism") {
  const ModelConfig config = two_layers("llama-3.1-8b");
  CHECK(resolve_errors(TpPlan{.source = "test"}, config).empty());
}

}  // namespace
