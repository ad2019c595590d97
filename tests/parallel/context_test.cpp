// Models whose sequences lie on several ranks, against one rank: the loss, and each parameter's
// gradient.
#include <ATen/ATen.h>

#include <catch2/catch.hpp>
#include <map>
#include <mutex>
#include <string>

#include "am/base/text.h"
#include "am/checkpoint/weights.h"
#include "support/plans.h"
#include "support/rank_check.h"

namespace am::parallel::cp {
namespace {

constexpr double kDivisor = 300.0;

struct ContextCase {
  std::string family = "llama";
  int64_t world = 2;
  std::string mesh = {}, strategy = {};  // lines beside cp_size and fsdp2
  int64_t cp = 2;
  int64_t length = 24;
  bool packed = false;

  std::string name() const {
    return cat(family, ", ", world, " ranks, cp ", cp, ", T ", length, packed ? ", packed " : " ",
               mesh, strategy);
  }
};

// `method` empty: on one rank.
config::Plan plan_of(const ContextCase& one, const std::string& method) {
  const bool alone = method.empty();
  const std::string mesh =
      alone ? std::string("world_size = 1\n")
            : cat("world_size = ", one.world, "\ncp_size = ", one.cp, "\n", one.mesh);
  const std::string strategy = alone ? std::string() : one.strategy;
  return test::parse(cat("[model]\npath = \"hf/", one.family, "\"\n[train]\nseq_len = ", one.length,
                         "\nmicro_batch_size = 2\n[mesh]\n", mesh,
                         alone ? std::string() : cat("[context]\nmethod = \"", method, "\"\n"),
                         "[strategy]\nname = \"fsdp2\"\n", test::kFullPrecision, strategy));
}

// Sequences of which a micro-batch has two, each of its own tokens and labels.
class Rows final : public MicroBatches {
 public:
  Rows(const ContextCase& one, int64_t dp_index, int64_t dp_size)
      : one_(one), index_(dp_index), size_(dp_size) {}
  int64_t count() const override { return 4 / size_; }
  MicroBatch read(int64_t m) override {
    const at::Tensor places = at::arange(2 * one_.length).view({2, one_.length});
    const at::Tensor ids = (places * places + places * 7 + (m * size_ + index_) * 11).remainder(61);
    const at::Tensor labels = (ids * 3 + places).remainder(61);
    labels.narrow(1, 2, 1).fill_(kIgnoreIndex);
    MicroBatch batch = {ids, labels, {}, 0};
    if (one_.packed) {
      const at::Tensor own = at::arange(one_.length);
      batch.positions_BT = at::stack({own.remainder(one_.length / 2 + 1), own.remainder(5)});
    }
    return batch;
  }

 private:
  const ContextCase& one_;
  int64_t index_, size_;
};

struct Outcome {
  double loss = 0, loss_without_graph = 0, balance = 0;
  std::map<std::string, at::Tensor> gradients;
  std::vector<int64_t> expert_counts;
};

double balance_of(ParallelModel& model) {
  const at::Tensor sum = model.take_balance();
  return sum.defined() ? sum.item<double>() : 0.0;
}

Outcome on_rank(const ContextCase& one, const std::string& method, const runtime::World& world) {
  test::RankModel rank(plan_of(one, method), world);
  checkpoint::initialize(*rank.model, 3);
  const runtime::Group& dp = rank.mesh.group("dp");
  Rows rows(one, dp.index(), dp.size());
  Outcome mine;
  mine.loss_without_graph = rank.model->forward_only(rows).item<double>();
  rank.model->data_parallel().reshard("");
  rank.model->take_expert_counts();
  rank.model->data_parallel().zero_grad();
  if (rank.config.moe) {
    rank.model->take_balance();
    rank.model->set_balance_factor(0.3);
  }
  mine.loss = rank.model->forward_backward(rows, {.divisor = kDivisor}).item<double>();
  if (rank.config.moe) mine.balance = balance_of(*rank.model);
  mine.expert_counts = rank.model->take_expert_counts();
  for (const auto& parameter : rank.layout.parameters) {
    if (!parameter.trainable) continue;
    mine.gradients[parameter.name] = rank.model->full_gradient(parameter.name).clone();
  }
  // The ranks of a tp group have the same loss.
  if (rank.mesh.group("tp").index() != 0) mine.loss = mine.loss_without_graph = 0.0;
  return mine;
}

// By each method, put together of all ranks.
std::vector<Outcome> run(const ContextCase& one, const std::vector<std::string>& methods,
                         int64_t world_size) {
  std::vector<Outcome> outcomes(methods.size());
  std::mutex mutex;
  runtime::run_ranks(world_size, [&](const runtime::World& world) {
    for (size_t m = 0; m < methods.size(); ++m) {
      Outcome mine = on_rank(one, methods[m], world);
      const std::lock_guard lock(mutex);
      Outcome& all = outcomes[m];
      all.loss += mine.loss;
      all.loss_without_graph += mine.loss_without_graph;
      all.balance += mine.balance;
      all.expert_counts.resize(mine.expert_counts.size());
      for (size_t i = 0; i < mine.expert_counts.size(); ++i) {
        all.expert_counts[i] += mine.expert_counts[i];
      }
      if (world.rank() == 0) all.gradients = std::move(mine.gradients);
    }
  });
  return outcomes;
}

const Outcome& of_one_rank(const ContextCase& one) {
  static std::map<std::string, Outcome> made;
  const std::string key = cat(one.family, " ", one.length, one.packed ? " packed" : "");
  const auto found = made.find(key);
  if (found != made.end()) return found->second;
  return made[key] = run(one, {""}, 1).front();
}

void check_case(const ContextCase& one) {
  const Outcome& wanted = of_one_rank(one);
  const std::vector<std::string> methods = {"ring", "all_gather", "ulysses"};
  const std::vector<Outcome> outcomes = run(one, methods, one.world);
  for (size_t m = 0; m < methods.size(); ++m) {
    const Outcome& got = outcomes[m];
    INFO(one.name() << ", " << methods[m]);
    CHECK(got.loss == Approx(wanted.loss).epsilon(1e-6));
    CHECK(got.loss_without_graph == Approx(got.loss).epsilon(1e-7));
    CHECK(got.balance == Approx(wanted.balance).epsilon(1e-6));
    CHECK(got.expert_counts == wanted.expert_counts);
    REQUIRE(got.gradients.size() == wanted.gradients.size());
    for (const auto& [name, gradient] : wanted.gradients) {
      INFO(name);
      const at::Tensor apart = got.gradients.at(name) - gradient;
      CHECK(apart.norm().item<double>() <= 5e-6 * gradient.norm().item<double>() + 1e-8);
    }
  }
}

}  // namespace

TEST_CASE("a part of each sequence on each rank gives one rank's gradients") {
  const std::string full = "activation_checkpointing = true\n";
  const auto one = GENERATE_COPY(
      ContextCase{}, ContextCase{.world = 4, .cp = 4}, ContextCase{.length = 19},
      ContextCase{.packed = true}, ContextCase{.world = 4, .cp = 4, .length = 22, .packed = true},
      ContextCase{.world = 4}, ContextCase{.world = 8, .mesh = "dp_replicate_size = 2\n"},
      ContextCase{.world = 4, .mesh = "tp_size = 2\n"},
      ContextCase{.world = 4, .mesh = "tp_size = 2\n", .strategy = "sequence_parallel = true\n"},
      ContextCase{.world = 4,
                  .mesh = "tp_size = 2\n",
                  .strategy = "sequence_parallel = true\n" + full,
                  .length = 21,
                  .packed = true},
      ContextCase{.family = "mixtral", .world = 4, .mesh = "tp_size = 2\n", .length = 17},
      ContextCase{.family = "deepseek_v3",
                  .world = 4,
                  .mesh = "tp_size = 2\n",
                  .strategy = "sequence_parallel = true\n" + full,
                  .length = 10},
      ContextCase{.strategy = full},
      ContextCase{.strategy = "activation_checkpointing = \"selective\"\n"},
      ContextCase{.strategy = "activation_checkpointing = \"mlp\"\n", .packed = true});
  check_case(one);
}

TEST_CASE("any family's sequences lie on several ranks") {
  const auto [family, length] = GENERATE(table<std::string, int64_t>({{"mistral", 30},
                                                                      {"gemma2", 30},
                                                                      {"gemma3_text", 27},
                                                                      {"gpt2", 29},
                                                                      {"phi", 24},
                                                                      {"phi3-longrope", 40},
                                                                      {"falcon", 24},
                                                                      {"smollm3", 24},
                                                                      {"olmo2", 24},
                                                                      {"gpt_oss", 32},
                                                                      {"mixtral", 21},
                                                                      {"qwen2_moe", 18},
                                                                      {"deepseek_v2-dense", 21},
                                                                      {"deepseek_v3", 24}}));
  check_case({.family = family, .length = length});
}

}  // namespace am::parallel::cp
