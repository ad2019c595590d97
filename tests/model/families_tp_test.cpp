// Tests the tensor-parallel plans that are derived for the families, and the errors of custom plans
// for experts, fused projections and norms over all heads.
#include <catch2/catch.hpp>

#include "am/base/json.h"
#include "am/base/text.h"
#include "am/model/family.h"
#include "am/model/inventory.h"
#include "am/model/tp_plan.h"

namespace {

using am::Diagnostics;
using am::model::build_inventory;
using am::model::family_tp_plan;
using am::model::Inventory;
using am::model::ModelConfig;
using am::model::ResolvedTpPlan;
using am::model::TpPlan;
using am::model::TpStyle;

// Returns the config of a published model, reduced to at most 4 layers.
ModelConfig short_model(const std::string& name) {
  ModelConfig config = am::test::model_of(name);
  config.num_hidden_layers = std::min<int64_t>(config.num_hidden_layers, 4);
  return config;
}

// A model with its resolved TP plan. The constructor checks that the plan has no diagnostics.
struct Planned {
  ModelConfig config;
  Inventory inventory;
  ResolvedTpPlan resolved;

  Planned(const std::string& name, bool sequence_parallel)
      : Planned(short_model(name), [&](const ModelConfig& config) {
          return family_tp_plan(config, sequence_parallel);
        }) {}
  template <class Plan>
  Planned(ModelConfig model, const Plan& plan)
      : config(std::move(model)), inventory(build_inventory(config)) {
    Diagnostics found;
    resolved = resolve_tp_plan(plan(config), inventory, {}, found);
    for (const auto& item : found.items()) UNSCOPED_INFO(item.rule << ": " << item.message);
    CHECK(found.empty());
  }

  const am::model::TpParameter& at(const std::string& name) const {
    for (size_t i = 0; i < inventory.parameters.size(); ++i) {
      if (inventory.parameters[i].name == name) return resolved.parameters[i];
    }
    FAIL("no parameter " << name);
    return resolved.parameters.front();
  }
  std::optional<int> cut(const std::string& name) const { return at(name).shard_dim; }
};

constexpr std::optional<int> kWhole = std::nullopt;

TEST_CASE("every family's own plan resolves without a complaint, with SP and without") {
  for (const char* name :
       {"llama-3.1-8b", "mistral-7b-v0.1", "mixtral-8x7b-v0.1", "qwen2.5-0.5b", "qwen2-57b-a14b",
        "qwen3-0.6b", "qwen3-30b-a3b", "gemma-2b", "gemma-2-2b", "gemma-3-1b-pt", "phi-2", "phi-4",
        "olmo-2-1124-7b", "deepseek-v2-lite", "deepseek-v3", "gpt-oss-20b", "gpt2", "falcon-7b",
        "smollm2-135m"}) {
    for (const bool sequence_parallel : {false, true}) {
      INFO(name << " " << sequence_parallel);
      const Planned planned(name, sequence_parallel);
      const std::string embedding = am::cat(planned.inventory.names.embedding, ".weight");
      CHECK(planned.cut(embedding) == 0);
      // The head is cut over the vocabulary for the vocabulary-parallel loss. A tied head has no
      // parameter of its own.
      if (!planned.config.tie_word_embeddings) CHECK(planned.cut("lm_head.weight") == 0);
    }
  }
}

TEST_CASE("experts and routers stay whole, and work on tokens that are dealt out") {
  for (const bool sequence_parallel : {false, true}) {
    INFO(sequence_parallel);
    const Planned mixtral("mixtral-8x7b-v0.1", sequence_parallel);
    CHECK(mixtral.cut("model.layers.0.self_attn.q_proj.weight") == 0);
    CHECK(mixtral.cut("model.layers.0.self_attn.o_proj.weight") == 1);
    for (const char* name : {"experts.3.w1", "gate"}) {
      const std::string whole = am::cat("model.layers.0.block_sparse_moe.", name, ".weight");
      CHECK(mixtral.cut(whole) == kWhole);
      CHECK(mixtral.at(whole).grad_sum_over_tp);
    }
    CHECK(mixtral.at("model.layers.0.input_layernorm.weight").grad_sum_over_tp ==
          sequence_parallel);
    // Shared experts process every token, like a dense feed-forward.
    const Planned shared("qwen2-57b-a14b", sequence_parallel);
    CHECK(shared.cut("model.layers.0.mlp.shared_expert.gate_proj.weight") == 0);
    CHECK(shared.cut("model.layers.0.mlp.shared_expert.down_proj.weight") == 1);
    CHECK(shared.at("model.layers.0.mlp.shared_expert_gate.weight").grad_sum_over_tp ==
          sequence_parallel);
  }
}

TEST_CASE("latent attention is cut behind its narrow vectors") {
  for (const bool sequence_parallel : {false, true}) {
    INFO(sequence_parallel);
    const Planned lite("deepseek-v2-lite", sequence_parallel);
    CHECK(lite.cut("model.layers.0.self_attn.q_proj.weight") == 0);
    CHECK(lite.cut("model.layers.0.self_attn.kv_b_proj.weight") == 0);
    CHECK(lite.cut("model.layers.0.self_attn.o_proj.weight") == 1);
    for (const char* name : {"kv_a_proj_with_mqa", "kv_a_layernorm"}) {
      const std::string whole = am::cat("model.layers.0.self_attn.", name, ".weight");
      CHECK(lite.cut(whole) == kWhole);
      CHECK(lite.at(whole).grad_sum_over_tp == sequence_parallel);
    }
    CHECK(lite.cut("model.layers.0.mlp.down_proj.weight") == 1);
    CHECK(lite.cut("model.layers.1.mlp.shared_experts.gate_proj.weight") == 0);
    const Planned v3("deepseek-v3", sequence_parallel);
    CHECK(v3.cut("model.layers.0.self_attn.q_b_proj.weight") == 0);
    CHECK(v3.at("model.layers.0.self_attn.q_a_layernorm.weight").grad_sum_over_tp ==
          sequence_parallel);
  }
}

TEST_CASE("gemma's four norms work on sequence shards") {
  const Planned gemma("gemma-3-1b-pt", true);
  for (const char* norm : {"input_layernorm", "post_attention_layernorm",
                           "pre_feedforward_layernorm", "post_feedforward_layernorm"}) {
    CHECK(gemma.at(am::cat("model.layers.1.", norm, ".weight")).style ==
          TpStyle::kSequenceParallel);
  }
  CHECK(gemma.at("model.layers.1.self_attn.q_norm.weight").grad_sum_over_tp);
}

TEST_CASE("phi-2 cuts whole heads and its plain MLP") {
  const Planned phi("phi-2", true);
  CHECK(phi.cut("model.layers.0.self_attn.q_proj.bias") == 0);
  CHECK(phi.cut("model.layers.0.self_attn.dense.weight") == 1);
  CHECK(phi.cut("model.layers.0.self_attn.dense.bias") == kWhole);
  CHECK(phi.cut("model.layers.0.mlp.fc1.weight") == 0);
  CHECK(phi.cut("model.layers.0.mlp.fc2.weight") == 1);
  CHECK(phi.at("model.layers.0.input_layernorm.bias").grad_sum_over_tp);
  CHECK(phi.cut("lm_head.bias") == 0);
}

TEST_CASE("fused matrices are cut slice by slice") {
  const Planned phi("phi-4", true);
  const auto& qkv = phi.at("model.layers.0.self_attn.qkv_proj.weight");
  CHECK(qkv.style == TpStyle::kPackedColwise);
  CHECK(qkv.shard_dim == 0);
  REQUIRE(qkv.slices.size() == 3);
  CHECK(qkv.slices[0].heads == 0);
  CHECK(qkv.slices[1].heads == 10);  // key heads; neighbouring ranks may share a head
  CHECK(qkv.slices[2].offset == 5120 + 1280);
  const auto& gate_up = phi.at("model.layers.0.mlp.gate_up_proj.weight");
  REQUIRE(gate_up.slices.size() == 2);
  CHECK(gate_up.slices[1].offset == 17920);
  CHECK(phi.at("model.layers.0.input_layernorm.weight").grad_sum_over_tp);
  const Planned gpt2("gpt2", false);
  CHECK(gpt2.cut("transformer.h.0.attn.c_attn.weight") == 1);  // stored as [in, out]
  CHECK(gpt2.cut("transformer.h.0.attn.c_attn.bias") == 0);
  CHECK(gpt2.at("transformer.h.0.attn.c_attn.bias").slices.size() == 3);
  CHECK(gpt2.cut("transformer.h.0.attn.c_proj.weight") == 0);
}

TEST_CASE("a matrix of several must be cut slice by slice, and one of one must not") {
  const Planned phi("phi-4", false);
  const auto errors = [&](const char* module, TpStyle style) {
    TpPlan plan = family_tp_plan(phi.config, false);
    plan.rules.push_back({module, style});
    Diagnostics found;
    resolve_tp_plan(plan, phi.inventory, {}, found);
    return found.items();
  };
  for (const char* module :
       {"model.layers.*.self_attn.qkv_proj", "model.layers.*.mlp.gate_up_proj"}) {
    const auto found = errors(module, TpStyle::kColwise);
    REQUIRE(found.size() == 1);
    CHECK(found[0].rule == "tp.style");
    CHECK_THAT(found[0].help, Catch::Contains("packed_colwise"));
  }
  const auto found = errors("model.layers.*.mlp.down_proj", TpStyle::kPackedColwise);
  REQUIRE_FALSE(found.empty());
  CHECK(found[0].rule == "tp.style");
}

TEST_CASE("norms over all heads together are cut as the heads are") {
  const Planned olmo("olmo-2-1124-7b", false);
  CHECK(olmo.at("model.layers.0.self_attn.q_proj.weight").style == TpStyle::kColwise);
  CHECK(olmo.cut("model.layers.0.self_attn.q_norm.weight") == 0);
  CHECK_FALSE(olmo.at("model.layers.0.self_attn.q_norm.weight").grad_sum_over_tp);
  CHECK(olmo.at("model.layers.0.self_attn.k_norm.weight").slices.size() == 1);
  // In this plan, the projections gather their outputs, so the norms read all heads and are not
  // sharded.
  TpPlan gathered = family_tp_plan(olmo.config, false);
  for (const char* name : {"q_proj", "k_proj", "v_proj"}) {
    gathered.rules.push_back({am::cat("model.layers.*.self_attn.", name), TpStyle::kColwiseRep});
  }
  gathered.rules.push_back({"model.layers.*.self_attn.o_proj", TpStyle::kRowwiseRep});
  Diagnostics found;
  const auto resolved = resolve_tp_plan(gathered, olmo.inventory, {}, found);
  CHECK(found.ok());
  for (size_t i = 0; i < olmo.inventory.parameters.size(); ++i) {
    const auto& parameter = olmo.inventory.parameters[i];
    if (parameter.role != am::model::Role::kQueryNorm) continue;
    CHECK_FALSE(resolved.parameters[i].shard_dim.has_value());
    CHECK_FALSE(resolved.parameters[i].grad_sum_over_tp);
  }
  TpPlan replicated = family_tp_plan(olmo.config, false);
  replicated.rules.push_back(
      {"model.layers.*.self_attn.q_norm", TpStyle::kReplicatedWithGradAllreduce});
  resolve_tp_plan(replicated, olmo.inventory, {}, found);
  REQUIRE(found.items().size() == 1);
  CHECK(found.items()[0].rule == "tp.style");
}

TEST_CASE("attention sinks are cut as the query heads are") {
  const Planned cut("gpt-oss-20b", false);
  CHECK(cut.cut("model.layers.0.self_attn.sinks") == 0);
  CHECK(cut.cut("model.layers.0.mlp.experts.gate_up_proj") == kWhole);
  const Planned whole(short_model("gpt-oss-20b"), [](const ModelConfig&) {
    return TpPlan{.source = "test", .rules = {{"model.embed_tokens", TpStyle::kRowwiseRep}}};
  });
  CHECK(whole.cut("model.layers.0.self_attn.sinks") == kWhole);
}

TEST_CASE("gpt-2's weights are cut on the dim that is out or in") {
  const Planned gpt2("gpt2", false);
  CHECK(gpt2.cut("transformer.h.0.mlp.c_fc.weight") == 1);
  CHECK(gpt2.cut("transformer.h.0.mlp.c_fc.bias") == 0);
  CHECK(gpt2.cut("transformer.h.0.mlp.c_proj.weight") == 0);
  CHECK(gpt2.cut("transformer.h.0.mlp.c_proj.bias") == kWhole);
  CHECK(gpt2.cut("transformer.h.0.attn.c_attn.weight") == 1);
  CHECK(gpt2.cut("transformer.wpe.weight") == kWhole);
}

TEST_CASE("a head that GPT-2 does not tie is cut over the vocabulary") {
  ModelConfig config = short_model("gpt2");
  config.tie_word_embeddings = false;
  const Planned untied(config,
                       [](const ModelConfig& model) { return family_tp_plan(model, false); });
  CHECK(untied.cut("lm_head.weight") == 0);
}

TEST_CASE("plans that cut experts or the slices of a fused projection are refused") {
  const auto refusals = [](const std::string& model, const char* pattern, TpStyle style) {
    const ModelConfig config = short_model(model);
    const TpPlan plan{.source = "test", .rules = {{pattern, style}}};
    Diagnostics found;
    resolve_tp_plan(plan, build_inventory(config), {}, found);
    std::string all;
    for (const auto& item : found.items()) all += am::cat(item.rule, ": ", item.message, "\n");
    return all;
  };
  CHECK_THAT(refusals("qwen3-30b-a3b", "model.layers.*.mlp.experts.*.up_proj", TpStyle::kColwise),
             Catch::Contains("tp.style") && Catch::Contains("is an expert"));
  CHECK_THAT(refusals("qwen3-30b-a3b", "model.layers.*.mlp.gate", TpStyle::kRowwise),
             Catch::Contains("chooses experts"));
  CHECK_THAT(refusals("phi-4", "model.layers.*.self_attn.qkv_proj", TpStyle::kColwise),
             Catch::Contains("several matrices"));
  CHECK_THAT(refusals("gpt2", "transformer.h.*.attn.c_attn", TpStyle::kColwise),
             Catch::Contains("several matrices"));
  CHECK_THAT(refusals("gpt-oss-20b", "model.layers.*.self_attn", TpStyle::kRowwise),
             Catch::Contains("for each head"));
  CHECK_THAT(refusals("phi-2", "model.layers.*.mlp.fc1", TpStyle::kColwise),
             Catch::Contains("tp.pair"));
  CHECK_THAT(refusals("falcon-7b", "transformer.h.*.self_attention.dense", TpStyle::kRowwise),
             Catch::Contains("tp.pair") && Catch::Contains("query_key_value"));
}

TEST_CASE("under sequence parallelism what reads the hidden state gathers the tokens") {
  // If a projection did not gather the tokens, attention would read only the rank's part of the
  // sequence, and the sum over tp would add outputs of different tokens.
  const ModelConfig config = short_model("llama-3.1-8b");
  TpPlan plan = family_tp_plan(config, true);
  const auto drop = [&](const char* leaf) {
    std::erase_if(plan.rules, [&](const auto& rule) { return am::ends_with(rule.pattern, leaf); });
  };
  for (const char* leaf : {"q_proj", "k_proj", "v_proj", "gate_proj", "up_proj"}) drop(leaf);
  plan.rules.push_back({"model.layers.*.self_attn.o_proj", TpStyle::kRowwiseRep});
  plan.rules.push_back({"model.layers.*.mlp.down_proj", TpStyle::kRowwiseRep});
  Diagnostics found;
  resolve_tp_plan(plan, build_inventory(config), {}, found);
  REQUIRE(found.items().size() == 5);
  for (const auto& item : found.items()) {
    CHECK(item.rule == "tp.pair");
    CHECK_THAT(item.help, Catch::Contains("give it \"colwise\""));
  }
}

}  // namespace
