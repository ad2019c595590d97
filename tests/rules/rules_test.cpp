// Tests details of rules: sizes that pass or fail, messages, and the order of messages.
// rule_cases_test.cpp tests every rule with a failing and a passing plan.
#include <algorithm>
#include <catch2/catch.hpp>
#include <set>

#include "am/frameworks/framework_rules.h"
#include "am/rules/check.h"
#include "layout/plan_text.h"
#include "support/folders.h"

namespace {

using am::Diagnostic;
using am::Diagnostics;
using am::test::ids;
using am::test::model_of;
using am::test::plan_of;
using Ids = std::vector<std::string>;

Diagnostics check(const std::string& text, const std::string& model = "llama-3.1-8b") {
  Diagnostics found;
  am::rules::check(plan_of(text, model), 0, found);
  for (const auto& item : found.items()) {
    UNSCOPED_INFO(item.rule << ": " << item.message << " | " << item.help);
  }
  return found;
}

// Checks that the plan has exactly one diagnostic, which must be of `rule`, and returns it.
Diagnostic only(const std::string& rule, const std::string& text,
                const std::string& model = "llama-3.1-8b") {
  const Diagnostics found = check(text, model);
  REQUIRE(ids(found) == Ids{rule});
  CHECK(found.items()[0].span.file == "plan.toml");
  CHECK_FALSE(found.items()[0].message.empty());
  return found.items()[0];
}

TEST_CASE("every rule has an id, a line, and a text of its own") {
  std::set<std::string_view> seen;
  for (const auto* rule : am::frameworks::every_rule()) {
    INFO(std::string(rule->id));
    CHECK(seen.insert(rule->id).second);
    CHECK(rule->summary.size() > 10);
    CHECK(rule->explain.size() > 80);
    CHECK(am::frameworks::find_any_rule(rule->id) == rule);
  }
  CHECK(am::frameworks::find_any_rule("no.such") == nullptr);
}

TEST_CASE("good plans pass") {
  CHECK(check("[mesh]\nworld_size = 8\n").empty());
  CHECK(check("[mesh]\nworld_size = 16\ntp_size = 2\n[train]\nglobal_batch_size = 16\n").empty());
  CHECK(
      check("[mesh]\nworld_size = 8\ntp_size = 8\n[strategy]\nsequence_parallel = true\n").empty());
  CHECK(check("[mesh]\nworld_size = 4\n[strategy]\nname = \"ddp\"\n").empty());
  CHECK(check("[mesh]\nworld_size = 16\npp_size = 2\ntp_size = 2\n[pipeline]\nmicrobatches = 4\n"
              "[train]\nglobal_batch_size = 32\n")
            .empty());
}

TEST_CASE("heads are handed out whole") {
  const auto heads = check("[mesh]\nworld_size = 14\ntp_size = 7\nranks_per_node = 14\n");
  CHECK(ids(heads) == Ids{"tp.heads", "tp.kv_heads", "tp.vocab"});
  CHECK(heads.items()[0].span.line == 5);
  // llama-3.2-3b has 24 heads and 8 key heads.
  const auto kv =
      check("[mesh]\nworld_size = 12\ntp_size = 12\nranks_per_node = 12\n", "llama-3.2-3b");
  CHECK(ids(kv) == Ids{"tp.kv_heads", "tp.ffn"});
  CHECK(kv.items()[0].help == "tp_size = 1, 2 or 4");
  CHECK(check("[mesh]\nworld_size = 24\ntp_size = 24\nranks_per_node = 24\n", "llama-3.2-3b")
            .errors() == 0);
  const auto qwen = check("[mesh]\nworld_size = 4\ntp_size = 4\n", "qwen2.5-0.5b");
  CHECK(ids(qwen) == Ids{"tp.heads"});
  CHECK(qwen.items()[0].help == "tp_size = 1 or 2");
}

TEST_CASE("a plan that leaves attention whole may use any tp") {
  CHECK(check("[mesh]\nworld_size = 14\ntp_size = 7\n[strategy]\n"
              "tp_plan = { \"model.layers.*.mlp.{gate,up}_proj\" = \"colwise\", "
              "\"model.layers.*.mlp.down_proj\" = \"rowwise\" }\n")
            .errors() == 0);
}

TEST_CASE("what strategies do not do") {
  const std::string ddp = "[strategy]\nname = \"ddp\"\n[mesh]\nworld_size = 8\n";
  CHECK_THAT(only("tp.strategy", ddp + "tp_size = 2\n").message,
             Catch::Contains("ddp does not support tensor parallelism"));
  only("pp.strategy", ddp + "pp_size = 2\n[train]\nglobal_batch_size = 8\n");
  only("cp.strategy", ddp + "cp_size = 2\n");
  only("hsdp.strategy", ddp + "dp_replicate_size = 2\n");
  only("ep.experts", ddp + "ep_size = 2\n");
  only("ep.experts", "[mesh]\nworld_size = 8\nep_size = 2\n");
  const std::string megatron = "[strategy]\nname = \"megatron_fsdp\"\n[mesh]\nworld_size = 8\n";
  only("hsdp.strategy", megatron + "dp_replicate_size = 2\n");
  CHECK(check(megatron + "tp_size = 2\ncp_size = 2\n").empty());
  const auto reshard =
      only("strategy.reshard", "[mesh]\nworld_size = 8\n[strategy]\nreshard_after_forward = 3\n");
  CHECK_THAT(reshard.help, Catch::Contains("reshard_after_forward = 2, 4 or 8"));
}

TEST_CASE("tensor-parallel groups across nodes are a warning") {
  const auto warning =
      only("mesh.tp_node", "[mesh]\nworld_size = 8\ntp_size = 8\nranks_per_node = 4\n");
  CHECK(warning.severity == am::Severity::kWarning);
}

TEST_CASE("batches divide") {
  const auto divide =
      only("batch.divide", "[mesh]\nworld_size = 8\n[train]\nglobal_batch_size = 20\n");
  CHECK(divide.help == "global_batch_size = 16 or 24");
  CHECK(divide.span.line == 6);
  const auto micro =
      only("batch.divide",
           "[mesh]\nworld_size = 8\n[train]\nglobal_batch_size = 32\nmicro_batch_size = 3\n");
  CHECK_THAT(micro.help, Catch::Contains("micro_batch_size = 1, 2 or 4"));
  only("batch.size", "[mesh]\nworld_size = 8\n[train]\nglobal_batch_size = 4\n");
}

TEST_CASE("sequences fit") {
  only("seq.length", "[mesh]\nworld_size = 1\n[train]\nseq_len = 200000\n");
  const auto sp = only("seq.sp",
                       "[mesh]\nworld_size = 4\ntp_size = 4\n[strategy]\nsequence_parallel = true\n"
                       "[train]\nseq_len = 1002\n");
  CHECK(sp.help == "seq_len = 1000 or 1004");
  const auto cp = only("seq.cp", "[mesh]\nworld_size = 4\ncp_size = 4\n[train]\nseq_len = 1004\n");
  CHECK(cp.help == "seq_len = 1000 or 1008");
}

TEST_CASE("a rule that needs only the mesh finds the same without a layout") {
  for (const char* text :
       {"[mesh]\nworld_size = 6\ntp_size = 3\n", "[mesh]\nworld_size = 16\npp_size = 16\n",
        "[mesh]\nworld_size = 8\ncp_size = 8\n[train]\nseq_len = 4097\n",
        "[mesh]\nworld_size = 8\nep_size = 4\n[train]\nglobal_batch_size = 7\n"}) {
    const auto plan = plan_of(text);
    const auto model = model_of("llama-3.1-8b");
    Diagnostics ignored;
    const auto sizes = am::layout::resolve_mesh(plan, 0, ignored);
    REQUIRE(sizes.has_value());
    const auto layout = am::layout::build_layout(plan, model, *sizes, ignored);
    am::rules::RuleContext with{.plan = plan,
                                .model = &model,
                                .axes = &*sizes,
                                .dp = sizes->dp(),
                                .mesh = &*sizes,
                                .layout = layout ? &*layout : nullptr};
    am::rules::RuleContext without = with;
    without.layout = nullptr;
    for (const am::rules::Rule* rule : am::rules::all_rules()) {
      if (rule->check == nullptr || rule->needs != am::rules::Needs::kMesh) continue;
      Diagnostics a, b;
      rule->check(with, a);
      rule->check(without, b);
      INFO(rule->id);
      CHECK(ids(a) == ids(b));
    }
  }
}

TEST_CASE("a pipeline without a batch takes one round of its micro-batches") {
  CHECK(check("[mesh]\nworld_size = 16\npp_size = 2\n").empty());
  const auto few = only("pp.microbatches",
                        "[mesh]\nworld_size = 16\npp_size = 2\n[train]\nglobal_batch_size = 8\n");
  CHECK(few.message ==
        "a step has 1 micro-batch for each rank, which is not a multiple of microbatches = 2");
  CHECK(few.help == "train.global_batch_size = 16");
}

TEST_CASE("sizes that a help names are refused by no other rule") {
  Diagnostics found;
  am::rules::check(plan_of("[mesh]\nworld_size = 56\ntp_size = 7\n"), 0, found);
  REQUIRE(ids(found) == Ids{"mesh.tp_node", "tp.heads", "tp.kv_heads", "tp.vocab"});
  for (const auto& item : found.items()) {
    CHECK(item.help.substr(0, item.help.find(';')) == "tp_size = 1, 2, 4 or 8");
  }
}

TEST_CASE("pipelines") {
  const std::string mesh = "[mesh]\nworld_size = 4\npp_size = 4\n[train]\nglobal_batch_size = 8\n";
  CHECK(check(mesh).empty());
  CHECK(check(mesh, "llama-3.2-1b").empty());  // tied: the last stage holds a copy of the embedding
  only("pp.virtual_stages", mesh + "[pipeline]\nvirtual_stages = 2\n");
  only("pp.virtual_stages", mesh + "[pipeline]\nschedule = \"interleaved_1f1b\"\n");
  only("pp.virtual_stages", mesh + "[pipeline]\nschedule = \"dual_pipe_v\"\nvirtual_stages = 4\n");
  only("pp.split_points", mesh + "[pipeline]\nsplit_points = [4, 8]\n");
  const auto micro =
      only("pp.microbatches", mesh + "[pipeline]\nschedule = \"gpipe\"\nmicrobatches = 3\n");
  CHECK(micro.help == "microbatches = 1, 2, 4 or 8; or train.global_batch_size = 6 or 9");
  const auto few = only("pp.schedule", mesh + "[pipeline]\nmicrobatches = 2\n");
  CHECK(few.help == "microbatches = 4 or 8, or schedule = \"gpipe\"");
  CHECK(few.span.line > 0);
  CHECK(check(mesh + "[pipeline]\nmicrobatches = 2\nschedule = \"gpipe\"\n").empty());
  const std::string rounds =
      "[mesh]\nworld_size = 2\npp_size = 2\n[train]\nglobal_batch_size = 30\n[pipeline]\n"
      "schedule = \"interleaved_1f1b\"\nvirtual_stages = 2\nmicrobatches = ";
  CHECK(check(rounds + "6\n").empty());
  CHECK(only("pp.schedule", rounds + "5\n").help ==
        "microbatches = 4 or 6, or schedule = \"looped_bfs\"");
  only("pp.schedule",
       "[mesh]\nworld_size = 2\npp_size = 2\n[train]\nglobal_batch_size = 1048576\n"
       "[pipeline]\nschedule = \"gpipe\"\nmicrobatches = 1048576\n");
  only("pp.layers", "[mesh]\nworld_size = 64\npp_size = 64\n[train]\nglobal_batch_size = 64\n");
  CHECK(only("pp.section", "[mesh]\nworld_size = 4\n[pipeline]\nmicrobatches = 3\n").severity ==
        am::Severity::kWarning);
}

TEST_CASE("data, schedule and checkpoints") {
  const std::string mesh = "[mesh]\nworld_size = 1\n";
  const std::string here = am::cat(am::test::kSourceFolder, "/CMakeLists.txt");
  CHECK(check(am::cat(mesh, "[data]\nkind = \"text\"\npath = \"", here, "\"\n")).empty());
  CHECK(check(am::cat(mesh, "[data]\nkind = \"text\"\npath = \"", am::test::kSourceFolder,
                      "/*.txt\"\n"))
            .empty());
  const auto missing = only("data.missing", mesh +
                                                "[data]\nkind = \"tokens\"\n"
                                                "token_dtype = \"uint32\"\npath = \"no.bin\"\n");
  CHECK_THAT(missing.message, Catch::Contains("no.bin"));
  only("data.tokenizer",
       am::cat(mesh, "[data]\nkind = \"text\"\npath = \"", here, "\"\ntokenizer = \"no.json\"\n"));
  only("data.token_dtype", am::cat(mesh, "[data]\nkind = \"tokens\"\npath = \"", here, "\"\n"));
  only("scheduler.warmup", mesh + "[train]\nmax_steps = 10\n[scheduler]\nwarmup_steps = 11\n");
  only("scheduler.decay", mesh +
                              "[train]\nmax_steps = 10\n[scheduler]\nname = \"wsd\"\n"
                              "warmup_steps = 5\ndecay_steps = 6\n");
  only("scheduler.decay", mesh +
                              "[train]\nmax_steps = 10\n[scheduler]\nname = \"cosine\"\n"
                              "warmup_steps = 5\ndecay_steps = 5\n");
  only("scheduler.min_lr", mesh + "[scheduler]\nname = \"linear\"\nmin_lr = 1.0\n");
  only("checkpoint.resume", mesh + "[checkpoint]\nresume = \"runs/none/step-3\"\n");
}

// The loader refuses a plan with these errors before the rules see it. A plan that is built in code
// can still have them.
TEST_CASE("what the loader would not let through") {
  am::config::Plan plan = plan_of("[mesh]\nworld_size = 8\ntp_size = 2\n");
  plan.data.kind = "text";
  std::get<am::config::FSDP2Config>(plan.strategy).enable_async_tensor_parallel = true;
  Diagnostics found;
  am::rules::check(plan, 0, found);
  auto rules = ids(found);
  std::sort(rules.begin(), rules.end());
  CHECK(rules == Ids{"data.path", "strategy.async_tp"});
}

TEST_CASE("models and weights") {
  const std::string mesh = "[mesh]\nworld_size = 1\n";
  Diagnostics found;
  am::config::Plan plan = plan_of(mesh);
  plan.model.path = "no/such/model";
  plan.model.weights = "no/such/weights";
  am::rules::check(plan, 0, found);
  auto rules = ids(found);
  std::sort(rules.begin(), rules.end());
  CHECK(rules == Ids{"model.path", "model.weights"});
  for (const auto& item : found.items()) CHECK_THAT(item.message, Catch::Contains("no/such/"));
}

TEST_CASE("dropout is warned of: nobody predicts it or trains with it") {
  const auto notes_of = [](double dropout) {
    am::model::ModelConfig model = am::test::model_of("llama-3.1-8b");
    model.dropout_key = "resid_pdrop";
    model.dropout = dropout;
    Diagnostics found;
    am::rules::check_model(plan_of("[mesh]\nworld_size = 1\n"), model, found);
    CHECK(found.ok());
    return ids(found);
  };
  CHECK(notes_of(0.1) == Ids{"model.dropout"});
  CHECK(notes_of(0.0).empty());
}

// Returns the messages of the rule for a model and a plan. `sizes`: text of the config.json.
std::vector<std::string> messages_of(const std::string& rule, const std::string& sizes,
                                     const std::string& plan) {
  Diagnostics found;
  const auto model = am::model::parse_config(sizes, "config.json", found);
  REQUIRE(model.has_value());
  am::rules::check_model(plan_of(plan), *model, found);
  std::vector<std::string> messages;
  for (const auto& item : found.items()) {
    if (item.rule == rule) messages.push_back(am::cat(item.message, " | ", item.help));
  }
  return messages;
}

const std::string kMamba2 =
    R"({"model_type": "mamba2", "vocab_size": 64, "hidden_size": 32, "num_hidden_layers": 2,
        "num_heads": 4, "head_dim": 16, "n_groups": 1})";
// Mamba in the first layer and attention in the second.
const std::string kJamba =
    R"({"model_type": "jamba", "vocab_size": 64, "hidden_size": 256, "intermediate_size": 512,
        "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
        "num_experts": 1, "attn_layer_period": 2, "attn_layer_offset": 1})";

TEST_CASE("parts that automesh cannot cut: a warning without tp and cp, and an error with them") {
  const auto found_of = [](const std::string& mesh) {
    return messages_of("model.parts", kMamba2, "[mesh]\nworld_size = 2\n" + mesh);
  };
  REQUIRE(found_of("").size() == 1);
  CHECK_THAT(found_of("")[0], Catch::Contains("mixer"));
  REQUIRE(found_of("tp_size = 2\n").size() == 1);
  CHECK_THAT(found_of("tp_size = 2\n")[0], Catch::Contains("tp_size = 2, but layers of mamba2"));
  CHECK_THAT(found_of("cp_size = 2\n").at(0), Catch::Contains("cp_size = 2"));
}

TEST_CASE("the strategy megatron cuts Mamba 2 over tp") {
  const auto found_of = [](int64_t groups, const char* mesh) {
    const std::string config = am::cat(R"({"model_type": "mamba2", "vocab_size": 64,
        "hidden_size": 32, "num_hidden_layers": 2, "num_heads": 4, "head_dim": 16, "n_groups": )",
                                       groups, "}");
    return messages_of(
        "model.parts", config,
        am::cat("[mesh]\nworld_size = 4\n", mesh, "[strategy]\nname = \"megatron\"\n"));
  };
  REQUIRE(found_of(2, "tp_size = 2\n").size() == 1);
  CHECK_THAT(found_of(2, "tp_size = 2\n")[0], Catch::Contains("their parameters are counted"));
  CHECK_THAT(found_of(2, "tp_size = 4\n").at(0),
             Catch::Contains("tp_size = 4 does not divide the 2 groups of Mamba 2"));
  CHECK_THAT(found_of(2, "cp_size = 2\n").at(0), Catch::Contains("cp_size = 2"));
}

TEST_CASE("vectors on activations that tp cuts prevent tp, and nothing else") {
  const std::string sizes =
      R"("vocab_size": 64, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2,
         "num_attention_heads": 4, "num_key_value_heads": 2})";
  for (const auto& [family, part] :
       {std::pair{"bitnet", "self_attn.attn_sub_norm"}, {"apertus", "mlp.act_fn"}}) {
    INFO(family);
    const auto found_of = [&, family = family](const std::string& mesh) {
      return messages_of("model.parts", am::cat(R"({"model_type": ")", family, "\", ", sizes),
                         "[mesh]\nworld_size = 2\n" + mesh);
    };
    CHECK(found_of("").empty());
    CHECK(found_of("cp_size = 2\n").empty());
    REQUIRE(found_of("tp_size = 2\n").size() == 1);
    CHECK_THAT(found_of("tp_size = 2\n")[0], Catch::Contains(part));
  }
}

TEST_CASE("parts that automesh has no model of are no linear layers") {
  const std::string mesh = "[mesh]\nworld_size = 1\n";
  const auto lora = [&](const std::string& target, const std::string& more = "") {
    return messages_of(
        more.empty() ? "lora.target_modules" : "lora.quantize_base", kJamba,
        am::cat(mesh, "[lora]\nrank = 4\ntarget_modules = [\"", target, "\"]\n", more));
  };
  CHECK(lora("all-linear").empty());
  CHECK(lora("all-linear", "quantize_base = \"nf4\"\n").empty());
  REQUIRE(lora("x_proj").size() == 1);
  CHECK_THAT(lora("x_proj")[0], Catch::Contains("is a part of a layer that only am-plan knows") &&
                                    Catch::Contains("q_proj, k_proj, v_proj, o_proj"));
  CHECK(messages_of("strategy.fp8", kJamba,
                    mesh + "[strategy]\nname = \"megatron\"\nfp8 = \"delayed\"\n[cluster]\n"
                           "gpu = \"h100-sxm\"\n")
            .empty());
}

TEST_CASE("a model without a limit of positions is not called too short") {
  CHECK(messages_of("seq.length", kMamba2, "[mesh]\nworld_size = 1\n[train]\nseq_len = 9000\n")
            .empty());
}

TEST_CASE("all violations come at once, in the file's order") {
  const auto found = check(
      "[mesh]\nworld_size = 12\ntp_size = 3\nep_size = 2\n[train]\nglobal_batch_size = 5\n"
      "seq_len = 300000\n[scheduler]\nwarmup_steps = 200\n[data]\nkind = \"text\"\npath = "
      "\"no.txt\"\n");
  CHECK(ids(found) == Ids{"mesh.tp_node", "tp.heads", "tp.kv_heads", "tp.ffn", "ep.experts",
                          "batch.divide", "seq.length", "scheduler.warmup", "data.missing"});
  int line = 0;
  for (const auto& item : found.items()) {
    CHECK(item.span.line >= line);
    line = item.span.line;
  }
}

TEST_CASE("rules that need a world are silent without one, the others speak") {
  const auto found = check("[mesh]\nworld_size = 7\ntp_size = 2\n[train]\nseq_len = 300000\n");
  CHECK(ids(found) == Ids{"mesh.divide", "seq.length"});
}

}  // namespace
