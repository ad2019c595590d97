// Tests the rules of each framework (dialects): for each condition, one plan passes and one fails.
// For torchtitan and NeMo AutoModel, verdicts are also compared with those of the framework's own
// validators (tests/data/dialects, made by scripts/fixtures/check_dialects.py).
#include "am/frameworks/framework_rules.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <set>

#include "am/base/file.h"
#include "layout/plan_text.h"
#include "support/folders.h"

namespace {

using am::Diagnostics;
using am::frameworks::find_framework_rules;
using am::frameworks::FrameworkRules;
using am::model::ModelConfig;
using am::test::ids;

Diagnostics judge(std::string_view dialect, const std::string& text, const std::string& model) {
  static std::map<std::string, ModelConfig> models;
  if (models.count(model) == 0) models.emplace(model, am::test::model_of(model));
  Diagnostics found;
  am::frameworks::judge(*find_framework_rules(dialect), am::test::plan_of(text, model),
                        &models.at(model), 0, found);
  return found;
}

struct DialectCase {
  const char* rule;
  const char* fails;
  const char* passes;
  const char* help = "";  // text that the help of the failing plan's error must contain
  const char* model = "llama-3.1-8b";
};

// The texts begin in section [mesh]; "|" separates lines (see mesh_toml).
constexpr DialectCase kDialectCases[] = {
    {"torchtitan.strategy", "world_size = 8|[strategy]|name = \"megatron\"", "world_size = 8",
     "fsdp2"},
    {"nemo-automodel.strategy", "world_size = 8|[strategy]|name = \"megatron\"", "world_size = 8",
     "fsdp2"},
    {"torchtitan.schedule",
     "world_size = 4|pp_size = 4|[pipeline]|microbatches = 2|[strategy]|name = \"megatron\"",
     "world_size = 4|pp_size = 4|[pipeline]|microbatches = 4|[strategy]|name = \"megatron\"",
     "microbatches = 4 or 8"},
    {"megatron.expert_world",
     "world_size = 8|tp_size = 2|ep_size = 8|[strategy]|name = \"megatron\"|"
     "sequence_parallel = true",
     "world_size = 8|tp_size = 2|ep_size = 8|[strategy]|name = \"megatron\"|"
     "sequence_parallel = true|etp_size = 1",
     "ep_size = 1, 2 or 4", "mixtral-8x7b-v0.1"},
    {"torchtitan.world_size", "world_size = 12|tp_size = 8", "world_size = 16|tp_size = 8",
     "world_size = 8 or 16"},
    {"torchtitan.world_size", "world_size = 16|dp_size = 4|tp_size = 2",
     "world_size = 8|dp_size = 4|tp_size = 2", "dp_size = 8"},
    {"torchtitan.expert_mesh", "world_size = 8|dp_replicate_size = 4|ep_size = 4",
     "world_size = 8|dp_replicate_size = 2|ep_size = 4", "ep_size = 1 or 2", "mixtral-8x7b-v0.1"},
    {"torchtitan.experts", "world_size = 16|ep_size = 16", "world_size = 16|ep_size = 8",
     "ep_size = 1, 2, 4 or 8", "mixtral-8x7b-v0.1"},
    {"torchtitan.heads", "world_size = 4|tp_size = 4", "world_size = 4|tp_size = 2",
     "tp_size = 1 or 2", "qwen2.5-0.5b"},
    {"torchtitan.kv_heads", "world_size = 16|tp_size = 16", "world_size = 8|tp_size = 8",
     "tp_size = 1, 2, 4 or 8"},
    {"torchtitan.seq_len",
     "world_size = 4|tp_size = 2|cp_size = 2|[strategy]|sequence_parallel = true|[train]|"
     "seq_len = 1004",
     "world_size = 4|tp_size = 2|cp_size = 2|[strategy]|sequence_parallel = true|[train]|"
     "seq_len = 1008",
     "seq_len = 1000 or 1008"},
    {"torchtitan.max_seq_len", "world_size = 1|[train]|seq_len = 131073",
     "world_size = 1|[train]|seq_len = 131072", "seq_len = 131072 or less"},
    {"torchtitan.batch", "world_size = 8|[train]|global_batch_size = 12",
     "world_size = 8|[train]|global_batch_size = 16", "global_batch_size = 8 or 16"},
    {"torchtitan.tied", "world_size = 2|pp_size = 2", "world_size = 2", "pp_size = 1",
     "llama-3.2-1b"},
    {"torchtitan.schedule", "world_size = 4|pp_size = 4|[pipeline]|microbatches = 3",
     "world_size = 4|pp_size = 4|[pipeline]|microbatches = 4", "microbatches = 4 or 8"},
    {"torchtitan.stages",
     "world_size = 8|pp_size = 8|[pipeline]|schedule = \"looped_bfs\"|virtual_stages = 3",
     "world_size = 2|pp_size = 2|[pipeline]|schedule = \"looped_bfs\"|virtual_stages = 3",
     "virtual_stages = 2"},
    {"megatron.world_size", "world_size = 12|tp_size = 8", "world_size = 16|tp_size = 8",
     "world_size = 8 or 16"},
    {"megatron.world_size", "world_size = 16|dp_size = 4|tp_size = 2",
     "world_size = 16|dp_size = 8|tp_size = 2", "dp_size = 8"},
    {"megatron.expert_world",
     "world_size = 8|tp_size = 2|ep_size = 8|[strategy]|sequence_parallel = true",
     "world_size = 8|tp_size = 2|ep_size = 4|[strategy]|sequence_parallel = true",
     "ep_size = 1, 2 or 4", "mixtral-8x7b-v0.1"},
    {"megatron.optimizer_instances", "world_size = 8|dp_replicate_size = 3",
     "world_size = 8|dp_replicate_size = 4", "dp_replicate_size = 1, 2, 4 or 8"},
    {"megatron.batch", "world_size = 8|[train]|global_batch_size = 12",
     "world_size = 8|[train]|global_batch_size = 16", "global_batch_size = 8 or 16"},
    {"megatron.heads", "world_size = 4|tp_size = 4", "world_size = 2|tp_size = 2",
     "tp_size = 1, 2, 7 or 14", "qwen2.5-0.5b"},
    {"megatron.query_groups", "world_size = 4|tp_size = 4", "world_size = 20|tp_size = 20",
     "tp_size = 1, 2, 5 or 10", "phi-4"},
    {"megatron.hidden", "world_size = 5|tp_size = 5", "world_size = 3|tp_size = 3",
     "tp_size = 2, 3, 4 or 6", "smollm2-135m"},
    {"megatron.ffn", "world_size = 5|tp_size = 5", "world_size = 3|tp_size = 3",
     "tp_size = 2, 3, 4 or 6", "smollm2-135m"},
    {"megatron.positions", "world_size = 1|[train]|seq_len = 131073",
     "world_size = 1|[train]|seq_len = 131072", "seq_len = 131072 or less"},
    {"megatron.sequence_parallel", "world_size = 2|[strategy]|sequence_parallel = true",
     "world_size = 2|tp_size = 2|[strategy]|sequence_parallel = true", "tp_size = 2 or more"},
    {"megatron.sequence",
     "world_size = 4|tp_size = 4|[strategy]|sequence_parallel = true|[train]|seq_len = 1002",
     "world_size = 4|tp_size = 4|[strategy]|sequence_parallel = true|[train]|seq_len = 1004",
     "seq_len = 1000 or 1004"},
    {"megatron.context", "world_size = 4|cp_size = 4|[train]|seq_len = 1004",
     "world_size = 4|cp_size = 4|[train]|seq_len = 1008", "seq_len = 1000 or 1008"},
    {"megatron.experts", "world_size = 8|ep_size = 2", "world_size = 8|ep_size = 1", "ep_size = 1"},
    {"megatron.experts", "world_size = 48|ep_size = 16", "world_size = 48|ep_size = 8",
     "ep_size = 1, 2, 4 or 8", "mixtral-8x7b-v0.1"},
    {"megatron.moe_sequence", "world_size = 2|tp_size = 2",
     "world_size = 2|tp_size = 2|[strategy]|sequence_parallel = true", "sequence_parallel = true",
     "mixtral-8x7b-v0.1"},
    {"megatron.layers", "world_size = 3|pp_size = 3", "world_size = 4|pp_size = 4",
     "pp_size = 1, 2, 4 or 8"},
    {"megatron.layers",
     "world_size = 4|pp_size = 4|[pipeline]|virtual_stages = 3|[train]|global_batch_size = 4",
     "world_size = 4|pp_size = 4|[pipeline]|virtual_stages = 4|[train]|global_batch_size = 4",
     "virtual_stages = 1, 2, 4 or 8"},
    {"megatron.interleaved",
     "world_size = 4|pp_size = 4|[pipeline]|virtual_stages = 2|[train]|global_batch_size = 6",
     "world_size = 4|pp_size = 4|[pipeline]|virtual_stages = 2|[train]|global_batch_size = 8",
     "global_batch_size = 4 or 8"},
    {"megatron.interleaved", "world_size = 4|[pipeline]|virtual_stages = 2", "world_size = 4",
     "pp_size = 2 or more"},
    {"megatron.schedule", "world_size = 2|pp_size = 2|[pipeline]|schedule = \"gpipe\"",
     "world_size = 2|pp_size = 2|[pipeline]|schedule = \"1f1b\"", "1f1b"},
    {"megatron.meta_device",
     "world_size = 2|[strategy]|name = \"megatron_fsdp\"|init_fsdp_with_meta_device = true|"
     "zero_dp_strategy = 0",
     "world_size = 2|[strategy]|name = \"megatron_fsdp\"|init_fsdp_with_meta_device = true",
     "zero_dp_strategy = 1, 2 or 3"},
    {"megatron.overlap",
     "world_size = 2|[strategy]|name = \"megatron_fsdp\"|overlap_grad_reduce = false",
     "world_size = 2|[strategy]|name = \"megatron_fsdp\"|overlap_grad_reduce = false|"
     "overlap_param_gather = false",
     "overlap_grad_reduce = true"},
    {"megatron.average",
     "world_size = 2|[strategy]|name = \"megatron_fsdp\"|average_in_collective = true|"
     "calculate_per_token_loss = true",
     "world_size = 2|[strategy]|name = \"megatron_fsdp\"|average_in_collective = true", "false"},
    {"nemo-automodel.strategy", "world_size = 4|tp_size = 2|[strategy]|name = \"ddp\"",
     "world_size = 4|[strategy]|name = \"ddp\"", "tp_size = 1"},
    {"nemo-automodel.strategy", "world_size = 4|ep_size = 2|[strategy]|name = \"megatron_fsdp\"",
     "world_size = 4|tp_size = 2|[strategy]|name = \"megatron_fsdp\"", "ep_size = 1"},
    {"nemo-automodel.hsdp", "world_size = 4|dp_replicate_size = 2|[strategy]|name = \"ddp\"",
     "world_size = 4|dp_replicate_size = 2", "dp_replicate_size = 1"},
    {"nemo-automodel.world_size", "world_size = 12|tp_size = 8", "world_size = 16|tp_size = 8",
     "world_size = 8 or 16"},
    {"nemo-automodel.mesh_size", "world_size = 8|dp_size = 8|tp_size = 2",
     "world_size = 8|dp_size = 4|tp_size = 2", "dp_size = 0"},
    {"nemo-automodel.idle_ranks", "world_size = 8|dp_size = 2|tp_size = 2",
     "world_size = 8|dp_size = 4|tp_size = 2", "dp_size = 0"},
    {"nemo-automodel.replicate", "world_size = 8|dp_replicate_size = 8",
     "world_size = 8|dp_replicate_size = 4", "dp_replicate_size = 1, 2 or 4"},
    {"nemo-automodel.expert_mesh", "world_size = 12|ep_size = 8",
     "world_size = 16|dp_replicate_size = 4|ep_size = 8", "ep_size = 3, 4, 6 or 12",
     "mixtral-8x7b-v0.1"},
    {"nemo-automodel.experts", "world_size = 16|ep_size = 16", "world_size = 16|ep_size = 8",
     "ep_size = 1, 2, 4 or 8", "mixtral-8x7b-v0.1"},
    {"nemo-automodel.heads", "world_size = 4|tp_size = 4", "world_size = 4|tp_size = 2",
     "tp_size = 1 or 2", "qwen2.5-0.5b"},
    {"nemo-automodel.kv_heads", "world_size = 16|tp_size = 16", "world_size = 8|tp_size = 8",
     "tp_size = 1, 2, 4 or 8"},
    {"nemo-automodel.batch", "world_size = 8|[train]|global_batch_size = 12",
     "world_size = 8|[train]|global_batch_size = 16", "global_batch_size = 8 or 16"},
    {"nemo-automodel.pipeline_batch",
     "world_size = 4|pp_size = 4|[pipeline]|schedule = \"gpipe\"|microbatches = 3",
     "world_size = 4|pp_size = 4|[pipeline]|schedule = \"gpipe\"|microbatches = 4",
     "microbatches = 4 or more"},
    {"nemo-automodel.schedule",
     "world_size = 2|pp_size = 2|[pipeline]|schedule = \"interleaved_1f1b\"|virtual_stages = 2|"
     "microbatches = 5",
     "world_size = 2|pp_size = 2|[pipeline]|schedule = \"interleaved_1f1b\"|virtual_stages = 2|"
     "microbatches = 6",
     "microbatches = 4 or 6"},
    {"nemo-automodel.tied", "world_size = 2|pp_size = 2", "world_size = 2", "pp_size = 1",
     "llama-3.2-1b"},
    {"nemo-automodel.stages",
     "world_size = 8|pp_size = 8|[pipeline]|schedule = \"looped_bfs\"|virtual_stages = 3",
     "world_size = 8|pp_size = 8|[pipeline]|schedule = \"looped_bfs\"|virtual_stages = 4",
     "virtual_stages = 2"},
};

std::string mesh_toml(const char* text) { return am::test::toml(am::cat("[mesh]|", text)); }

std::string_view dialect_of(std::string_view rule) { return rule.substr(0, rule.find('.')); }

TEST_CASE("each condition of a dialect refuses one plan and lets another pass") {
  for (const DialectCase& one : kDialectCases) {
    INFO(one.rule << ": " << one.fails);
    const Diagnostics failing = judge(dialect_of(one.rule), mesh_toml(one.fails), one.model);
    const auto found = std::find_if(failing.items().begin(), failing.items().end(),
                                    [&](const auto& item) { return item.rule == one.rule; });
    REQUIRE(found != failing.items().end());
    const am::rules::Rule* rule = am::frameworks::find_any_rule(one.rule);
    REQUIRE(rule != nullptr);
    CHECK_THAT(found->message, Catch::Contains(std::string(rule->summary)));
    CHECK_THAT(found->help, Catch::Contains(one.help));
    CHECK(found->span.file == "plan.toml");
    CHECK(found->span.line > 0);
    const auto passing = ids(judge(dialect_of(one.rule), mesh_toml(one.passes), one.model));
    CHECK(std::find(passing.begin(), passing.end(), one.rule) == passing.end());
  }
}

TEST_CASE("every condition of every dialect has a case") {
  std::set<std::string_view> tried;
  for (const DialectCase& one : kDialectCases) tried.insert(one.rule);
  for (const FrameworkRules& dialect : am::frameworks::all_framework_rules()) {
    for (const auto& one : dialect.rules) {
      INFO(std::string(one.rule.id));
      CHECK(dialect_of(one.rule.id) == dialect.name);
      CHECK(tried.count(one.rule.id) == 1);
    }
  }
}

TEST_CASE("frameworks disagree, and each is judged by its own") {
  // There are more tp ranks than key/value heads: only Megatron replicates these heads.
  const std::string wide = "[mesh]\nworld_size = 16\ntp_size = 16\n";
  CHECK(judge("megatron", wide, "llama-3.1-8b").ok());
  CHECK_FALSE(judge("torchtitan", wide, "llama-3.1-8b").ok());
  // The layers do not divide evenly among the stages: only Megatron refuses the plan.
  const std::string uneven =
      "[mesh]\nworld_size = 3\npp_size = 3\n[pipeline]\nmicrobatches = 3\n[train]\n"
      "global_batch_size = 3\n";
  CHECK_FALSE(judge("megatron", uneven, "llama-3.1-8b").ok());
  CHECK(judge("torchtitan", uneven, "llama-3.1-8b").ok());
  CHECK(judge("nemo-automodel", uneven, "llama-3.1-8b").ok());
  // Some ranks are outside of the mesh: only NeMo AutoModel accepts idle ranks.
  const std::string idle = "[mesh]\nworld_size = 8\ndp_size = 2\ntp_size = 2\n";
  CHECK(judge("nemo-automodel", idle, "llama-3.1-8b").ok());
  CHECK_FALSE(judge("torchtitan", idle, "llama-3.1-8b").ok());
}

TEST_CASE("sizes that are none end the judgement") {
  for (const std::string& name : am::frameworks::rule_framework_names()) {
    CHECK(ids(judge(name, "[mesh]\ntp_size = 2\n", "llama-3.1-8b")) ==
          std::vector<std::string>{"mesh.world"});
    CHECK(ids(judge(name,
                    "[mesh]\ntp_size = 1048576\npp_size = 1048576\ncp_size = 1048576\n"
                    "dp_size = 1048576\n",
                    "llama-3.1-8b")) == std::vector<std::string>{"mesh.size"});
  }
  CHECK(find_framework_rules("deepspeed") == nullptr);
}

// One line of a file in tests/data/dialects, as a map from column names to values.
using FixtureLine = std::map<std::string, std::string>;

std::string plan_text(const FixtureLine& layout) {
  const auto value = [&](const char* key) { return layout.at(key); };
  std::string text =
      am::cat("[mesh]\nworld_size = ", value("world"), "\ndp_size = ", value("dp"),
              "\ndp_replicate_size = ", value("dp_replicate"), "\ntp_size = ", value("tp"),
              "\ncp_size = ", value("cp"), "\npp_size = ", value("pp"), "\nep_size = ", value("ep"),
              "\n[strategy]\nname = \"", value("strategy"), "\"\n");
  if (value("strategy") == "fsdp2" && value("sequence_parallel") == "1") {
    text += "sequence_parallel = true\n";
  }
  return text + am::cat("[pipeline]\nschedule = \"", value("schedule"),
                        "\"\nmicrobatches = ", value("microbatches"),
                        "\nvirtual_stages = ", value("virtual_stages"),
                        "\n[train]\nseq_len = ", value("seq_len"),
                        "\nmicro_batch_size = ", value("micro_batch"),
                        "\nglobal_batch_size = ", value("global_batch"), "\n");
}

TEST_CASE("verdicts are those of the frameworks' own validators") {
  for (const std::string name : {"torchtitan", "nemo-automodel"}) {
    const auto lines =
        am::split(am::read_file(am::cat(am::test::kDataFolder, "/dialects/", name, ".csv")), '\n');
    const auto header = am::split(lines.front(), ',');
    int accepted = 0;
    int count = 0;
    for (size_t i = 1; i < lines.size() && !lines[i].empty(); ++i) {
      const auto cells = am::split(lines[i], ',');
      REQUIRE(cells.size() == header.size());
      FixtureLine layout;
      for (size_t c = 0; c < cells.size(); ++c) layout[header[c]] = cells[c];
      INFO(name << " line " << i + 1 << ": " << lines[i]);
      const Diagnostics found = judge(name, plan_text(layout), layout.at("model"));
      for (const auto& item : found.items()) UNSCOPED_INFO(item.rule << ": " << item.message);
      CHECK(found.ok() == (layout.at("accepted") == "1"));
      accepted += layout.at("accepted") == "1" ? 1 : 0;
      ++count;
    }
    CHECK(count >= 100);
    CHECK(accepted > count / 10);
    CHECK(accepted < count * 9 / 10);
  }
}

}  // namespace
