// Compares the library's rules for Megatron, on random layouts, with an independent table of the
// same rules. The table is made from Megatron's documentation and sources.
#include <algorithm>
#include <catch2/catch.hpp>
#include <random>

#include "am/frameworks/framework_rules.h"
#include "layout/plan_text.h"

namespace {

using am::Diagnostics;
using am::config::Plan;
using am::model::ModelConfig;
using am::test::ids;

// A job, described by Megatron's arguments.
struct Job {
  int64_t world, tp, pp, cp, ep, written_dp, optimizer_instances;
  int64_t heads, groups, hidden, ffn, layers, experts, positions;
  int64_t seq, micro, global, virtual_stages;
  bool sequence_parallel, list_of_stages;
  std::string schedule;

  int64_t dp() const { return world / (tp * pp * cp); }
  int64_t num_microbatches() const { return global / (micro * dp()); }
};

bool r1(const Job& j) { return j.world % (j.tp * j.pp * j.cp) == 0; }
bool r1_size(const Job& j) { return r1(j) && (j.written_dp == 0 || j.written_dp == j.dp()); }
bool r2(const Job& j) {
  const int64_t expert_tensor_parallel = j.tp;
  return j.world % (expert_tensor_parallel * j.ep * j.pp) == 0;
}
bool r4(const Job& j) { return !r1(j) || (j.dp() * j.cp) % j.optimizer_instances == 0; }
bool r5(const Job& j) {
  return !r1(j) || j.global == 0 ||
         (j.global >= j.micro * j.dp() && j.global % (j.micro * j.dp()) == 0);
}
bool r8(const Job& j) { return j.heads % j.tp == 0; }
bool r9(const Job& j) { return j.groups % j.tp == 0 || j.tp % j.groups == 0; }
bool r11_ffn(const Job& j) { return j.ffn % j.tp == 0; }
bool r11_hidden(const Job& j) { return j.hidden % j.tp == 0; }
bool r15(const Job& j) {
  if (!j.sequence_parallel || j.tp == 1) return true;
  return j.seq % j.cp == 0 && (j.seq / j.cp) % j.tp == 0;
}
bool r17(const Job& j) { return j.seq <= j.positions; }
bool r18(const Job& j) { return j.cp == 1 || j.seq % (2 * j.cp) == 0; }
bool r21(const Job& j) { return j.ep == 1 || (j.experts > 0 && j.experts % j.ep == 0); }
bool r22(const Job& j) { return j.experts == 0 || j.tp == 1 || j.sequence_parallel; }
bool r26_27(const Job& j) {
  if (j.pp == 1 || j.list_of_stages) return true;
  return j.layers % j.pp == 0 && (j.layers / j.pp) % j.virtual_stages == 0;
}
bool r30(const Job& j) {
  if (j.virtual_stages == 1) return true;
  if (j.pp == 1) return false;
  if (!r1(j) || !r5(j) || j.global == 0) return !r1(j) || !r5(j) || 1 % j.pp == 0;
  return j.num_microbatches() % j.pp == 0;
}
bool schedules(const Job& j) {
  return j.pp == 1 || j.schedule == "1f1b" || j.schedule == "interleaved_1f1b";
}

struct Row {
  const char* id;
  bool (*holds)(const Job&);
};

constexpr Row kTable[] = {
    {"megatron.world_size", r1_size},
    {"megatron.expert_world", r2},
    {"megatron.optimizer_instances", r4},
    {"megatron.batch", r5},
    {"megatron.heads", r8},
    {"megatron.query_groups", r9},
    {"megatron.ffn", r11_ffn},
    {"megatron.hidden", r11_hidden},
    {"megatron.sequence", r15},
    {"megatron.positions", r17},
    {"megatron.context", r18},
    {"megatron.experts", r21},
    {"megatron.moe_sequence", r22},
    {"megatron.layers", r26_27},
    {"megatron.interleaved", r30},
    {"megatron.schedule", schedules},
};

// Returns a random job. Two fifths of the jobs are meant to be valid; one or two random changes in
// the others may violate rules.
Job random_job(std::mt19937& random) {
  const auto one_of = [&](std::initializer_list<int64_t> values) {
    return values.begin()[random() % values.size()];
  };
  Job j{};
  j.tp = one_of({1, 1, 2, 4});
  j.pp = one_of({1, 1, 2, 4});
  j.cp = one_of({1, 1, 2});
  j.ep = 1;
  j.optimizer_instances = 1;
  const int64_t dp = one_of({1, 2, 3, 4, 8});
  j.world = j.tp * j.pp * j.cp * dp;
  j.heads = 32;
  j.groups = one_of({2, 4, 8, 32});
  j.hidden = 4096;
  j.ffn = one_of({11008, 14336});
  j.layers = one_of({32, 48});
  j.experts = one_of({0, 0, 8, 64});
  j.positions = 8192;
  j.seq = one_of({2048, 4096, 8192});
  j.micro = one_of({1, 2});
  j.virtual_stages = j.pp > 1 ? one_of({1, 1, 2, 4}) : 1;
  j.schedule = j.virtual_stages > 1 ? "interleaved_1f1b" : "1f1b";
  j.global = j.micro * dp * j.pp * one_of({1, 2, 4});
  j.sequence_parallel = j.tp > 1 && (j.experts > 0 || random() % 2 == 0);
  j.list_of_stages = j.pp == 2 && j.virtual_stages == 1 && random() % 4 == 0;
  for (auto slips = one_of({0, 0, 1, 1, 2}); slips > 0; --slips) {
    switch (random() % 16) {
      case 0:
        j.world += one_of({-1, 1, 2, 5});
        break;
      case 1:
        j.tp = one_of({3, 6, 8, 16, 64});
        break;
      case 2:
        j.pp = one_of({3, 5, 8});
        break;
      case 3:
        j.cp = one_of({3, 4, 8});
        break;
      case 4:
        j.ep = one_of({2, 3, 4, 16});
        break;
      case 5:
        j.written_dp = one_of({1, 2, 4, 5});
        break;
      case 6:
        j.optimizer_instances = one_of({2, 3, 4});
        break;
      case 7:
        j.heads = one_of({12, 30, 28});
        break;
      case 8:
        j.groups = one_of({3, 6, 10});
        break;
      case 9:
        j.ffn = one_of({11007, 10922});
        break;
      case 10:
        j.layers = one_of({30, 33, 34});
        break;
      case 11:
        j.seq = one_of({1000, 2049, 2050, 16384});
        break;
      case 12:
        j.global = one_of({0, 1, 3, 7, 24, 100});
        break;
      case 13:
        j.virtual_stages = one_of({1, 2, 3, 8});
        break;
      case 14:
        j.sequence_parallel = !j.sequence_parallel;
        break;
      default:
        j.schedule = random() % 2 == 0 ? "gpipe" : "dual_pipe_v";
        break;
    }
  }
  j.world = std::max<int64_t>(j.world, 1);
  return j;
}

Plan plan_of_job(const Job& j) {
  Plan plan;
  plan.file = "plan.toml";
  plan.mesh.world_size = j.world;
  plan.mesh.dp_size = j.written_dp;
  plan.mesh.dp_replicate_size = j.optimizer_instances;
  plan.mesh.tp_size = j.tp;
  plan.mesh.pp_size = j.pp;
  plan.mesh.cp_size = j.cp;
  plan.mesh.ep_size = j.ep;
  plan.pipeline.schedule = j.schedule;
  plan.pipeline.virtual_stages = j.virtual_stages;
  if (j.list_of_stages) plan.pipeline.split_points = {7};
  plan.train.seq_len = j.seq;
  plan.train.micro_batch_size = j.micro;
  plan.train.global_batch_size = j.global;
  std::get<am::config::FSDP2Config>(plan.strategy).sequence_parallel = j.sequence_parallel;
  return plan;
}

ModelConfig model_of_job(const Job& j, ModelConfig model) {
  model.num_attention_heads = j.heads;
  model.num_key_value_heads = j.groups;
  model.hidden_size = j.hidden;
  model.intermediate_size = j.ffn;
  model.num_hidden_layers = j.layers;
  model.max_position_embeddings = j.positions;
  model.moe.reset();
  if (j.experts > 0) model.moe = am::model::MoeConfig{.experts = j.experts};
  return model;
}

std::string text_of(const Job& j) {
  return am::cat("world ", j.world, " dp ", j.written_dp, " x", j.optimizer_instances, " tp ", j.tp,
                 " pp ", j.pp, " cp ", j.cp, " ep ", j.ep, " heads ", j.heads, "/", j.groups,
                 " ffn ", j.ffn, " layers ", j.layers, " experts ", j.experts, " seq ", j.seq,
                 " batch ", j.micro, "/", j.global, " virtual ", j.virtual_stages, " sp ",
                 j.sequence_parallel, " ", j.schedule);
}

TEST_CASE("Megatron's rules, said twice, agree on random layouts") {
  const am::frameworks::FrameworkRules* megatron = am::frameworks::find_framework_rules("megatron");
  REQUIRE(megatron != nullptr);
  const ModelConfig base = am::test::model_of("llama-3.1-8b");
  std::mt19937 random(20);
  int accepted = 0;
  std::vector<int> violated(std::size(kTable), 0);
  constexpr int kLayouts = 5000;
  for (int i = 0; i < kLayouts; ++i) {
    const Job job = random_job(random);
    const ModelConfig model = model_of_job(job, base);
    Diagnostics found;
    am::frameworks::judge(*megatron, plan_of_job(job), &model, 0, found);
    const auto reported = ids(found);
    INFO(text_of(job));
    bool all = true;
    for (size_t r = 0; r < std::size(kTable); ++r) {
      const bool holds = kTable[r].holds(job);
      const bool silent =
          std::find(reported.begin(), reported.end(), kTable[r].id) == reported.end();
      INFO(kTable[r].id);
      REQUIRE(silent == holds);
      violated[r] += holds ? 0 : 1;
      all = all && holds;
    }
    REQUIRE(found.ok() == all);
    accepted += all ? 1 : 0;
  }
  CHECK(accepted > kLayouts / 5);
  CHECK(accepted < kLayouts * 4 / 5);
  for (size_t r = 0; r < std::size(kTable); ++r) {
    INFO(kTable[r].id);
    CHECK(violated[r] > 0);
  }
}

// Returns whether automesh's own rules contain the rule in a weaker form: automesh pads uneven
// sizes, or warns, where Megatron refuses the plan.
bool is_weaker_in_automesh(std::string_view rule) {
  constexpr std::string_view kWeaker[] = {
      "megatron.query_groups", "megatron.ffn",     "megatron.hidden", "megatron.sequence",
      "megatron.positions",    "megatron.context", "megatron.layers"};
  return std::find(std::begin(kWeaker), std::end(kWeaker), rule) != std::end(kWeaker);
}

TEST_CASE("a plan of the strategy megatron that passes automesh's rules passes Megatron's") {
  const ModelConfig base = am::test::model_of("llama-3.2-1b");
  std::mt19937 random(43);
  int accepted = 0;
  for (int i = 0; i < 1500; ++i) {
    Job job = random_job(random);
    job.experts = 0;
    job.layers = 16;
    if (job.pp == 1) job.virtual_stages = 1;  // automesh only warns of other values
    if (job.global == 0) continue;            // Megatron's default batch differs from automesh's
    ModelConfig model = model_of_job(job, base);
    Plan plan = plan_of_job(job);
    plan.strategy = am::config::MegatronConfig{.sequence_parallel = job.sequence_parallel};
    plan.cluster.implementation = am::config::default_implementation(plan.strategy);
    if (job.pp > 1 && job.list_of_stages) plan.pipeline.split_points = {7};
    Diagnostics own;
    am::rules::check_model(plan, model, own);
    if (!own.ok()) continue;
    ++accepted;
    INFO(text_of(job));
    for (const Row& row : kTable) {
      INFO(row.id);
      if (!is_weaker_in_automesh(row.id)) CHECK(row.holds(job));
    }
  }
  CHECK(accepted > 200);
}

}  // namespace
