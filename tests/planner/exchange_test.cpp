#include "am/planner/exchange/exchange.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <random>
#include <set>

#include "am/base/file.h"
#include "am/planner/plan_difference.h"
#include "planner/plan_text.h"
#include "planner/random_plan.h"

using namespace am;
using namespace am::planner;

namespace {

const Framework& framework(std::string_view name) {
  const Framework* found = find_framework(name);
  REQUIRE(found != nullptr);
  return *found;
}

Imported imported(const Framework& from, const std::string& text) {
  Diagnostics found;
  auto plan = import_plan(from, text, "file", found);
  for (const auto& item : found.items()) UNSCOPED_INFO(item.rule << ": " << item.message);
  REQUIRE(plan.has_value());
  return *std::move(plan);
}

Diagnostics refused(std::string_view from, const std::string& text) {
  Diagnostics found;
  CHECK_FALSE(import_plan(framework(from), text, "file", found).has_value());
  REQUIRE_FALSE(found.ok());
  return found;
}

test::ValidPlan valid(const std::string& text, const std::string& model = "llama-3.1-8b") {
  config::Plan plan = test::plan_of(text, model);
  Diagnostics found;
  auto checked = check(plan, 0, found);
  for (const auto& item : found.items()) UNSCOPED_INFO(item.rule << ": " << item.message);
  REQUIRE(checked.layout.has_value());
  return {std::move(plan), *std::move(checked.model), *std::move(checked.layout)};
}

std::set<std::string> lost_keys(const Exported& exported) {
  std::set<std::string> keys;
  for (const Lost& item : exported.lost) keys.insert(item.key);
  return keys;
}

bool is_layout_key(const std::string& key) {
  return starts_with(key, "mesh.") || starts_with(key, "pipeline.") || key == "strategy.name" ||
         key == "strategy.tp_plan" || starts_with(key, "strategy.reshard");
}

// Every parameter lies where it lay.
void check_equal_layouts(const Layout& a, const Layout& b) {
  CHECK(a.mesh.sizes() == b.mesh.sizes());
  CHECK(a.stage_owners == b.stage_owners);
  REQUIRE(a.parameters.size() == b.parameters.size());
  for (size_t i = 0; i < a.parameters.size(); ++i) {
    CAPTURE(a.parameters[i].name);
    REQUIRE(a.parameters[i].name == b.parameters[i].name);
    CHECK(a.parameters[i].tp_dim == b.parameters[i].tp_dim);
    CHECK(a.parameters[i].fsdp == b.parameters[i].fsdp);
    CHECK(a.parameters[i].stage == b.parameters[i].stage);
  }
}

// Exports, imports, and holds what comes back to what was exported, up to what was said to be lost.
Exported round_trip(const Framework& to, const test::ValidPlan& of, bool flags = false) {
  CAPTURE(to.name, flags, config::to_toml(of.plan));
  const Exported out = export_plan(to, {of.plan, of.model, of.layout, flags});
  CAPTURE(out.text);
  const std::set<std::string> lost = lost_keys(out);
  CHECK(lost.size() == out.lost.size());
  for (const Lost& item : out.lost) CHECK_FALSE(item.why.empty());

  Imported back = imported(to, out.text);
  back.plan.model.path = of.plan.model.path;
  const int64_t layers = of.model.num_hidden_layers;
  for (const auto& item : differences(settled(of.plan, layers), settled(back.plan, layers))) {
    CAPTURE(item.key, item.a.dump(), item.b.dump());
    CHECK(lost.count(item.key) == 1);
  }
  if (std::any_of(lost.begin(), lost.end(), is_layout_key) &&
      lost != std::set<std::string>{"mesh.ranks_per_node"}) {
    return out;
  }
  // The draft's own text is a plan, and its layout is the same.
  Diagnostics found;
  const auto plan = config::parse_plan(back.toml(), of.plan.file, {}, found);
  for (const auto& item : found.items()) UNSCOPED_INFO(item.rule << ": " << item.message);
  REQUIRE(plan.has_value());
  const auto checked = check(*plan, 0, found);
  REQUIRE(checked.layout.has_value());
  CHECK(found.ok());
  check_equal_layouts(of.layout, *checked.layout);
  return out;
}

// What each framework's file can hold; a key of it may never be lost.
bool must_survive(std::string_view framework, const std::string& key, const config::Plan& plan) {
  const bool ddp = std::holds_alternative<config::DDPConfig>(plan.strategy);
  if (key == "mesh.ranks_per_node") return framework == "megatron";
  if (starts_with(key, "mesh.")) {
    if (framework == "megatron") return key != "mesh.dp_replicate_size";
    if (framework == "accelerate") return plan.mesh.pp_size == 1;
    if (framework == "deepspeed") {
      return plan.mesh.pp_size == 1 && plan.mesh.cp_size == 1 && key != "mesh.dp_replicate_size";
    }
    return true;
  }
  if (framework == "accelerate") return key == "strategy.name" && ddp;
  if (key == "train.global_batch_size") return framework != "deepspeed";
  if (key == "train.micro_batch_size" || starts_with(key, "optimizer.")) return true;
  if (framework == "deepspeed") return key == "strategy.zero_dp_strategy";
  if (key == "train.seq_len" || key == "train.max_steps" || key == "train.max_grad_norm" ||
      key == "pipeline.split_points" || key == "pipeline.virtual_stages") {
    return true;
  }
  if (framework == "nemo-automodel") {
    return starts_with(key, "pipeline.") || key == "strategy.name" ||
           starts_with(key, "strategy.mp_policy") || starts_with(key, "scheduler.");
  }
  return framework == "torchtitan" && starts_with(key, "pipeline.");
}

}  // namespace

TEST_CASE("every example plan comes back from every framework", "[exchange]") {
  int plans = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(cat(AM_SOURCE_DIR, "/plans"))) {
    if (entry.path().extension() != ".toml") continue;
    CAPTURE(entry.path());
    Diagnostics found;
    auto file = check_file(entry.path(), {}, 0, found);
    REQUIRE(file.checked.layout.has_value());
    const test::ValidPlan plan{*file.plan, *file.checked.model, *file.checked.layout};
    for (const Framework& to : frameworks()) {
      round_trip(to, plan);
      if (to.has_flags) round_trip(to, plan, true);
    }
    ++plans;
  }
  CHECK(plans >= 7);
}

TEST_CASE("500 random layouts come back from every framework", "[exchange]") {
  test::RandomPlans plans(20250101);
  for (int i = 0; i < 500; ++i) {
    const test::ValidPlan plan = plans.next();
    for (const Framework& to : frameworks()) {
      for (const Lost& item : round_trip(to, plan).lost) {
        CAPTURE(to.name, item.key, item.value, item.why, config::to_toml(plan.plan));
        CHECK_FALSE(must_survive(to.name, item.key, plan.plan));
      }
    }
  }
}

TEST_CASE("torchtitan: the keys of a job file", "[exchange]") {
  const test::ValidPlan plan = valid(
      "[mesh]\nworld_size = 16\ntp_size = 2\npp_size = 2\ndp_replicate_size = 2\n"
      "[pipeline]\nmicrobatches = 4\n[train]\nglobal_batch_size = 32\nmicro_batch_size = 2\n"
      "[strategy]\nname = \"fsdp2\"\nsequence_parallel = true\n");
  const Exported out = export_plan(framework("torchtitan"), {plan.plan, plan.model, plan.layout});
  for (const char* line :
       {"[parallelism]", "data_parallel_replicate_degree = 2", "data_parallel_shard_degree = 2",
        "tensor_parallel_degree = 2", "pipeline_parallel_degree = 2",
        "pipeline_parallel_schedule = \"1F1B\"", "pipeline_parallel_microbatch_size = 2",
        "local_batch_size = 8", "global_batch_size = 32", "mode = \"none\""}) {
    CAPTURE(line, out.text);
    CHECK(out.text.find(cat("\n", line, "\n")) != std::string::npos);
  }
  CHECK(out.text.find("[\"layers.16\", \"layers.17\"") != std::string::npos);
}

TEST_CASE("torchtitan: what a job file leaves out is torchtitan's default", "[exchange]") {
  const Imported in = imported(framework("torchtitan"),
                               "[parallelism]\ndata_parallel_shard_degree = 8\n"
                               "[experimental]\ncustom_import = \"x\"\n");
  CHECK(in.plan.mesh.world_size == 8);
  CHECK(in.plan.train.micro_batch_size == 8);
  CHECK(in.plan.optimizer.lr == 8e-4);
  CHECK(in.plan.scheduler.warmup_steps == 200);
  const auto& fsdp2 = std::get<config::FSDP2Config>(in.plan.strategy);
  CHECK(fsdp2.activation_checkpointing == config::ActivationCheckpointing::kSelective);
  REQUIRE(in.ignored.size() == 1);
  CHECK(in.ignored[0].key == "experimental.custom_import");
  CHECK(in.ignored[0].value == "\"x\"");
}

TEST_CASE("torchtitan: flags with and without a launcher before them", "[exchange]") {
  const Imported in = imported(
      framework("torchtitan"),
      "torchrun --nproc_per_node 8 -m torchtitan.train --module llama3 \\\n"
      "  --parallelism.data_parallel_shard_degree 4 --parallelism.tensor-parallel-degree=2 \\\n"
      "  --parallelism.no_enable_sequence_parallel --training.seq_len 8192 "
      "activation_checkpoint:full\n");
  CHECK(in.plan.mesh.world_size == 8);
  CHECK(in.plan.mesh.tp_size == 2);
  CHECK(in.plan.train.seq_len == 8192);
  const auto& fsdp2 = std::get<config::FSDP2Config>(in.plan.strategy);
  CHECK_FALSE(fsdp2.sequence_parallel);
  CHECK(fsdp2.activation_checkpointing == config::ActivationCheckpointing::kFull);
}

TEST_CASE("megatron: arguments and a pipeline's layout", "[exchange]") {
  const Imported in = imported(
      framework("megatron"),
      "# two nodes\ntorchrun --nproc_per_node 8 --nnodes=2 pretrain_gpt.py \\\n"
      "  --tensor-model-parallel-size 2 --sequence-parallel \\\n"
      "  --pipeline-model-parallel-size 4 --pipeline-model-parallel-layout 'E(t|)*3,tt|t*2|tt|tL||' "
      "--use-distributed-optimizer --bf16 --micro-batch-size 1 --global-batch-size 64 "
      "--lr 1e-4 --adam-beta2 .95 --swiglu --unknown-thing 3 4\n");
  CHECK(in.plan.mesh.world_size == 16);
  CHECK(in.plan.mesh.dp_size == 2);
  CHECK(in.plan.mesh.ranks_per_node == 8);
  CHECK(in.plan.pipeline.virtual_stages == 2);
  CHECK(in.plan.pipeline.schedule == "interleaved_1f1b");
  CHECK(in.plan.pipeline.split_points == std::vector<int64_t>{1, 2, 3, 5, 7, 9, 10});
  CHECK(in.plan.pipeline.microbatches == 32);
  CHECK(in.plan.optimizer.lr == 1e-4);
  CHECK(in.plan.optimizer.betas[1] == 0.95);
  CHECK(std::get<config::FSDP2Config>(in.plan.strategy).sequence_parallel);
  REQUIRE_FALSE(in.notes.empty());
  std::set<std::string> ignored;
  for (const Ignored& item : in.ignored) ignored.insert(item.key);
  CHECK(ignored.count("--swiglu") == 1);
  CHECK(ignored.count("--unknown-thing") == 1);
}

TEST_CASE("megatron: what is exported for fsdp2 depends on what Megatron has", "[exchange]") {
  const Framework& to = framework("megatron");
  const test::ValidPlan plain = valid("[mesh]\nworld_size = 8\n");
  CHECK(export_plan(to, {plain.plan, plain.model, plain.layout}).text.find("--use-torch-fsdp2") !=
        std::string::npos);
  const test::ValidPlan piped = valid("[mesh]\nworld_size = 8\npp_size = 2\n");
  const Exported out = export_plan(to, {piped.plan, piped.model, piped.layout});
  CHECK(out.text.find("--use-torch-fsdp2") == std::string::npos);
  CHECK(lost_keys(out).count("strategy.name") == 1);
}

TEST_CASE("nemo-automodel: sizes that are not given are the launcher's", "[exchange]") {
  const std::string text = R"(distributed:
  dp_size:
  tp_size: 2
  pp_size: 2
  activation_checkpointing: 'full'
  pipeline: {pp_schedule: interleaved1f1b, pp_microbatch_size: 2}
step_scheduler:
    global_batch_size: 64
    local_batch_size: 8
peft:
- dim: 8
- [1, "x: y"]
)";
  const Imported in = imported(framework("nemo-automodel"), text);
  CHECK(in.plan.mesh.world_size == 0);
  CHECK(in.plan.mesh.tp_size == 2);
  CHECK(in.plan.pipeline.schedule == "interleaved_1f1b");
  CHECK(in.plan.pipeline.virtual_stages == 2);
  CHECK(in.plan.pipeline.microbatches == 4);
  CHECK(in.plan.train.micro_batch_size == 2);
  REQUIRE(in.ignored.size() == 1);
  CHECK(in.ignored[0].value == R"([{"dim":8},[1,"x: y"]])");
  const auto& fsdp2 = std::get<config::FSDP2Config>(in.plan.strategy);
  CHECK_FALSE(fsdp2.mp_policy.cast_forward_inputs);  // AutoModel's default, which is not ours
}

TEST_CASE("accelerate: FSDP's configuration", "[exchange]") {
  const Imported in = imported(framework("accelerate"), R"(compute_environment: LOCAL_MACHINE
distributed_type: FSDP
mixed_precision: bf16
num_machines: 2
num_processes: 16
fsdp_config:
  fsdp_version: 2
  fsdp_reshard_after_forward: false
  fsdp_offload_params: true
  fsdp_transformer_layer_cls_to_wrap: LlamaDecoderLayer
parallelism_config:
  parallelism_config_dp_replicate_size: 2
  parallelism_config_dp_shard_size: 4
  parallelism_config_tp_size: 2
downcast_bf16: 'no'
)");
  CHECK(in.plan.mesh.world_size == 16);
  CHECK(in.plan.mesh.dp_replicate_size == 2);
  CHECK(in.plan.mesh.ranks_per_node == 8);
  const auto& fsdp2 = std::get<config::FSDP2Config>(in.plan.strategy);
  CHECK(fsdp2.mp_policy.reduce_dtype == "bfloat16");
  CHECK(std::get<bool>(*fsdp2.reshard_after_forward) == false);
  CHECK(fsdp2.offload_policy.has_value());
  CHECK(in.ignored.size() == 2);
}

TEST_CASE("deepspeed: stages, batches and what they make of dp", "[exchange]") {
  const Framework& deepspeed = framework("deepspeed");
  const test::ValidPlan plan = valid(
      "[mesh]\nworld_size = 8\ntp_size = 2\n[train]\nglobal_batch_size = 16\n"
      "[strategy]\nname = \"fsdp2\"\noffload_policy = { pin_memory = true }\n");
  const Json json =
      Json::parse(export_plan(deepspeed, {plan.plan, plan.model, plan.layout}).text);
  CHECK(json["train_batch_size"] == 16);
  CHECK(json["gradient_accumulation_steps"] == 4);
  CHECK(json["zero_optimization"]["stage"] == 3);
  CHECK(json["zero_optimization"]["offload_param"]["device"] == "cpu");
  CHECK(json["tensor_parallel"]["autotp_size"] == 2);
  CHECK(json["bf16"]["enabled"] == true);

  const Imported in = imported(deepspeed, R"({"train_batch_size": 64,
    "train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 4,
    "zero_optimization": {"stage": 2, "overlap_comm": true},
    "optimizer": {"type": "AdamW", "params": {"lr": "auto", "betas": [0.9, 0.98]}}})");
  CHECK(in.plan.mesh.dp_size == 8);
  CHECK(in.plan.train.global_batch_size == 64);
  CHECK(std::get<config::MegatronFSDPConfig>(in.plan.strategy).zero_dp_strategy == 2);
  CHECK(in.plan.optimizer.betas[1] == 0.98);
  CHECK(in.plan.optimizer.lr == 1e-3);
  REQUIRE(in.ignored.size() == 1);
  CHECK(in.ignored[0].key == "zero_optimization.overlap_comm");
}

TEST_CASE("importers say where a file is wrong", "[exchange]") {
  struct Case {
    const char* from;
    const char* text;
    const char* rule;
    int line;
    int column;
  };
  const std::vector<Case> cases = {
      {"torchtitan", "[parallelism]\ntensor_parallel_degree = 1000000000\n", "exchange.value", 2,
       26},
      {"torchtitan", "[parallelism]\ntensor_parallel_degree = \"2\"\n", "exchange.type", 2, 26},
      {"torchtitan", "[parallelism\n", "plan.syntax", 1, 13},
      {"torchtitan", "[training]\nseq_len = -5\n", "plan.range", 2, 11},
      {"torchtitan",
       "[parallelism]\npipeline_parallel_degree = 2\npipeline_parallel_schedule = \"Magic\"\n",
       "exchange.value", 3, 30},
      {"torchtitan",
       "[parallelism]\ndata_parallel_shard_degree = 1048576\ntensor_parallel_degree = 1048576\n"
       "context_parallel_degree = 1048576\npipeline_parallel_degree = 1048576\n",
       "plan.range", 2, 30},
      {"megatron", "pretrain.py --tensor-model-parallel-size -2", "exchange.value", 1, 42},
      {"megatron", "pretrain.py --lr $LR", "exchange.syntax", 1, 18},
      {"megatron", "pretrain.py --lr 'a", "exchange.syntax", 1, 18},
      {"megatron", "a.py --x 1 | tee log", "exchange.syntax", 1, 12},
      {"megatron",
       "--pipeline-model-parallel-size 2 --pipeline-model-parallel-layout 't*99999999|t'",
       "exchange.value", 1, 67},
      {"nemo-automodel", "distributed:\n  tp_size: 2\n   cp_size: 1\n", "exchange.syntax", 3, 4},
      {"nemo-automodel", "a: &x 1\n", "exchange.syntax", 1, 4},
      {"nemo-automodel", "a: |\n  text\n", "exchange.syntax", 1, 4},
      {"nemo-automodel", "a: 1\na: 2\n", "exchange.syntax", 2, 1},
      {"nemo-automodel", "a: 'x\n", "exchange.syntax", 1, 4},
      {"nemo-automodel", "distributed:\n  strategy: zero\n", "exchange.value", 2, 13},
      {"nemo-automodel", "distributed:\n\ttp_size: 2\n", "exchange.syntax", 2, 1},
      {"nemo-automodel", "- a\n- b\n", "exchange.syntax", 1, 1},
      {"nemo-automodel", "a: 1\n---\nb: 2\n", "exchange.syntax", 2, 1},
      {"accelerate", "distributed_type: TPU\n", "exchange.value", 1, 19},
      {"accelerate", "num_processes: 4\n", "exchange.value", 0, 0},
      {"accelerate",
       "distributed_type: FSDP\nnum_processes: 8\nparallelism_config:\n"
       "  parallelism_config_tp_size: 3\n",
       "exchange.value", 2, 16},
      {"deepspeed", "{\"train_batch_size\": 10,\n", "json.syntax", 2, 1},
      {"deepspeed", "[1]", "exchange.type", 1, 1},
      {"deepspeed",
       "{\"train_batch_size\": 10,\n \"train_micro_batch_size_per_gpu\": 3,\n"
       " \"gradient_accumulation_steps\": 1}",
       "exchange.value", 1, 22},
      {"deepspeed", "{\"zero_optimization\": {\"stage\": 4}}", "exchange.value", 1, 33},
      {"deepspeed", "{\"a\": 1\x01}", "json.syntax", 1, 8},
      {"accelerate", "distributed_type: \xFF\n", "exchange.syntax", 0, 0},
  };
  for (const Case& one : cases) {
    CAPTURE(one.from, one.text);
    const Diagnostics found = refused(one.from, one.text);
    const Diagnostic& first = found.items().front();
    CAPTURE(first.message);
    CHECK(first.rule == one.rule);
    CHECK(first.span.file == "file");
    CHECK(first.span.line == one.line);
    CHECK(first.span.column == one.column);
  }
}

TEST_CASE("importers take any bytes", "[exchange]") {
  std::vector<std::string> seeds;
  const test::ValidPlan plan = valid(
      "[mesh]\nworld_size = 16\ntp_size = 2\npp_size = 2\n[train]\nglobal_batch_size = 16\n");
  for (const Framework& to : frameworks()) {
    seeds.push_back(export_plan(to, {plan.plan, plan.model, plan.layout}).text);
  }
  std::vector<std::string> texts = {
      "", "\n", "#", std::string(100000, '['), std::string(100000, '{'), std::string(50000, '-'),
      std::string(1, '\0'), "a:\n" + std::string(3000, ' ') + "b", "--", "--=", "--a.b.c.d=1",
      "---", "...", "\xEF\xBB\xBF" "a: 1", "? a", "a: [1, 2", "{\"a\": {\"b\": [", "'", "\"\\u12",
      "\"\\ud800\"", std::string(300000, 'x'), "a: " + std::string(2000, '[')};
  std::string deep;
  for (int i = 0; i < 400; ++i) deep += std::string(static_cast<size_t>(i), ' ') + "k:\n";
  texts.push_back(deep);
  std::mt19937 random(7);
  const auto below = [&random](size_t n) {
    return std::uniform_int_distribution<size_t>(0, n - 1)(random);
  };
  const std::vector<std::string> pieces = {"1000000000", "-1", "[", "]", "{", ":", "\"", "'", "\n",
                                           " ", "\t", "\\", "$", "*", "|", "9223372036854775808",
                                           "1e999", "null", "true", "\xC3", "=", "#", "--"};
  for (int i = 0; i < 1500; ++i) {
    std::string text = seeds[below(seeds.size())];
    for (size_t edits = 1 + below(4); edits > 0; --edits) {
      const size_t at = below(text.size());
      switch (below(4)) {
        case 0:
          text.erase(at, 1 + below(8));
          break;
        case 1:
          text.resize(at + 1);
          break;
        default:
          text.insert(at, pieces[below(pieces.size())]);
      }
    }
    texts.push_back(std::move(text));
  }
  int read = 0;
  for (const std::string& text : texts) {
    for (const Framework& from : frameworks()) {
      Diagnostics found;
      const auto in = import_plan(from, text, "file", found);
      CAPTURE(from.name, text.substr(0, 2000));
      REQUIRE(in.has_value() == found.ok());
      if (!in.has_value()) continue;
      ++read;
      // What comes out is a plan's text.
      Diagnostics again;
      CHECK(config::parse_draft(in->toml(), "plan.toml", {}, again).has_value());
    }
  }
  CHECK(read > 100);
}
