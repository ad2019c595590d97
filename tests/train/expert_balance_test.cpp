// The load of experts is balanced by an auxiliary loss or by correction biases: values and
// gradients equal PyTorch's, and training is equal under every layout.
#include "am/train/expert_balance.h"

#include <ATen/ATen.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <map>
#include <mutex>

#include "am/base/text.h"
#include "am/checkpoint/read_tensor.h"
#include "am/checkpoint/weights.h"
#include "am/frameworks/open_weights.h"
#include "am/train/trainer.h"
#include "support/plans.h"
#include "support/temporary_folder.h"

namespace am::expert_balance {
namespace {

using test::kFullPrecision;

struct Cut {
  int64_t dp = 1, tp = 1;
  bool sequence_parallel = false;
};

// Compares one pass with PyTorch's. Every data-parallel rank computes the whole batch, so the
// losses are divided by dp.
void compare_with_fixture(const std::string& family, const Cut& cut, const std::string& mode) {
  const int64_t ranks = cut.dp * cut.tp;
  const config::Plan plan = test::parse(
      cat("[model]\npath = \"hf/", family, "\"\n[train]\nseq_len = 16\nmicro_batch_size = 2\n",
          test::float32_fsdp2(ranks, cat("tp_size = ", cut.tp, "\n"),
                              cat("activation_checkpointing = ", mode, "\nsequence_parallel = ",
                                  cut.sequence_parallel ? "true" : "false", "\n"))));
  const auto open = [&](const std::string& file) {
    return frameworks::open_tensor_source(test::data_path(cat("hf/", family, "/", file)));
  };
  const auto reference = open("reference.safetensors"), wanted = open("balance.safetensors");
  const auto weights = open("model.safetensors");
  std::mutex mutex;
  runtime::run_ranks(ranks, [&](const runtime::World& world) {
    test::RankModel rank(plan, world);
    checkpoint::load(*rank.model, *weights);
    const at::Tensor labels = checkpoint::read_all(*reference, "labels");
    const auto sequences = static_cast<double>(labels.size(0));
    const double factor = checkpoint::read_all(*wanted, "coefficient").item<double>() / sequences;
    const auto dp = static_cast<double>(cut.dp);
    rank.model->set_balance_factor(factor / dp);
    const at::Tensor logits = rank.model->forward(checkpoint::read_all(*reference, "input_ids"));
    const at::Tensor loss = rank.model->loss_sum(logits, labels);
    const int64_t count = labels.ne(parallel::kIgnoreIndex).sum().item<int64_t>();
    (loss / static_cast<double>(count) / dp).backward();
    rank.model->data_parallel().finish_backward();
    const at::Tensor balance = rank.model->take_balance();
    rank.model->mesh().group("tp").all_reduce(balance);

    std::map<std::string, double> differences;
    const auto compare = [&](const std::string& name, const at::Tensor& got) {
      differences[name] = test::relative_difference(got, checkpoint::read_all(*wanted, name));
    };
    REQUIRE(balance.defined());
    compare("auxiliary", (balance * factor).to(at::kFloat));
    for (const layout::ParameterLayout& parameter : rank.layout.parameters) {
      const std::string name = "grad." + parameter.name;
      if (wanted->find(name) != nullptr) {
        compare(name, rank.model->full_gradient(parameter.name));
      }
    }
    // The reported loss is the cross-entropy only.
    differences["loss"] = test::relative_difference((loss / count).view({1}),
                                                    checkpoint::read_all(*reference, "loss"));
    CHECK_FALSE(rank.model->take_balance().defined());
    const std::lock_guard lock(mutex);
    CHECK(differences.size() > 4);
    for (const auto& [name, difference] : differences) {
      INFO(family << ", dp " << cut.dp << ", tp " << cut.tp << ", checkpointing " << mode << ": "
                  << name);
      CHECK(difference < 1e-5);
    }
  });
}

struct Trained {
  std::vector<double> losses, auxiliary;
  std::map<std::string, at::Tensor> weights;  // full weights
};

constexpr const char* kBias = "model.layers.1.mlp.gate.e_score_correction_bias";

std::string plan_text(const std::string& balancing, int64_t micro_batch,
                      const std::string& layout) {
  return cat("[model]\npath = \"hf/deepseek_v3\"\n[train]\nseq_len = 16\nglobal_batch_size = 12\n",
             "micro_batch_size = ", micro_batch,
             "\nmax_steps = 4\n[optimizer]\nlr = 1e-3\n[experts]\nbalancing = \"", balancing,
             "\"\n", balancing == "bias" ? "rate = 0.01\n" : "",
             balancing == "sequence" ? "coefficient = 0.05\n" : "",
             "[data]\nkind = \"tokens\"\npath = \"loop/tokens.bin\"\nshuffle = false\n", layout);
}

Trained run_training(const config::Plan& plan, int64_t ranks) {
  const std::filesystem::path nowhere = std::filesystem::temp_directory_path() / "am-no-such-run";
  Trained trained;
  runtime::run_ranks(ranks, [&](const runtime::World& world) {
    Diagnostics found;
    const auto config = model::load_config(plan.resolve(plan.model.path), found);
    train::Trainer trainer(job::make_job(plan, *config, world.size()), world,
                           run_folder::RunFolder(nowhere), {});
    Trained mine;
    for (int64_t step = 0; step < plan.train.max_steps; ++step) {
      const observe::StepMetrics metrics = trainer.train_step(step);
      mine.losses.push_back(metrics.loss);
      if (metrics.aux_loss) mine.auxiliary.push_back(*metrics.aux_loss);
    }
    for (const layout::ParameterLayout& parameter : trainer.model().layout().parameters) {
      mine.weights[parameter.name] = trainer.model().full_parameter(parameter.name);
    }
    if (world.rank() == 0) trained = std::move(mine);
  });
  return trained;
}

Trained run_training(const std::string& balancing, int64_t ranks, int64_t micro_batch,
                     const std::string& layout) {
  return run_training(test::parse(plan_text(balancing, micro_batch, layout)), ranks);
}

struct Way {
  std::string name;
  int64_t ranks, micro_batch;
  std::string layout;
};

std::vector<Way> ways() {
  const auto ddp = [](int64_t ranks) {
    return cat("[mesh]\nworld_size = ", ranks, "\n[strategy]\nname = \"ddp\"\n");
  };
  const std::string checkpointed = "activation_checkpointing = ";
  return {
      {"one rank, 2 micro-batches", 1, 6, test::float32_fsdp2(1)},
      {"fsdp2 on 2", 2, 6, test::float32_fsdp2(2)},
      {"fsdp2 on 3, 2 micro-batches", 3, 2, test::float32_fsdp2(3)},
      {"fsdp2 on 2, never resharded", 2, 3,
       test::float32_fsdp2(2, "", "reshard_after_forward = false\n")},
      {"ddp on 2", 2, 3, ddp(2)},
      {"hsdp", 4, 3, test::float32_fsdp2(4, "dp_replicate_size = 2\n")},
      {"megatron_fsdp on 2", 2, 6,
       "[mesh]\nworld_size = 2\n[strategy]\nname = \"megatron_fsdp\"\n"},
      {"tp 2", 2, 6, test::float32_fsdp2(2, "tp_size = 2\n")},
      {"tp 2, SP, 2 micro-batches", 2, 6,
       test::float32_fsdp2(2, "tp_size = 2\n", "sequence_parallel = true\n")},
      {"tp 2 x fsdp2 2", 4, 3, test::float32_fsdp2(4, "tp_size = 2\n")},
      {"tp 2, SP, checkpointed", 2, 12,
       test::float32_fsdp2(2, "tp_size = 2\n",
                           "sequence_parallel = true\n" + checkpointed + "true\n")},
      {"ep 2 x fsdp2 2", 4, 3, test::float32_fsdp2(4, "ep_size = 2\n")},
      {"ep 4 over tp 2, SP", 4, 6,
       test::float32_fsdp2(4, "tp_size = 2\nep_size = 4\n", "sequence_parallel = true\n")},
      {"checkpointed", 2, 3, test::float32_fsdp2(2, "", checkpointed + "true\n")},
      {"checkpointed, mlp", 1, 12, test::float32_fsdp2(1, "", checkpointed + "\"mlp\"\n")},
  };
}

void check_same(const Trained& got, const Trained& wanted) {
  REQUIRE(got.losses.size() == wanted.losses.size());
  REQUIRE(got.auxiliary.size() == wanted.auxiliary.size());
  for (size_t i = 0; i < got.losses.size(); ++i) {
    CHECK(got.losses[i] == Approx(wanted.losses[i]).epsilon(1e-6));
  }
  for (size_t i = 0; i < got.auxiliary.size(); ++i) {
    CHECK(got.auxiliary[i] == Approx(wanted.auxiliary[i]).epsilon(1e-6));
  }
  for (const auto& [name, value] : wanted.weights) {
    INFO(name);
    CHECK(test::relative_difference(got.weights.at(name), value) < 1e-4);
  }
  CHECK(at::equal(got.weights.at(kBias), wanted.weights.at(kBias)));
}

}  // namespace

TEST_CASE("the balance of sequences and its gradient are PyTorch's") {
  const std::string family = GENERATE("deepseek_v3", "qwen3_moe", "gpt_oss");
  for (const Cut& cut :
       {Cut{}, Cut{.dp = 3}, Cut{.tp = 2}, Cut{.dp = 2, .tp = 2, .sequence_parallel = true}}) {
    for (const std::string mode : {"false", "true", "\"mlp\""}) {
      compare_with_fixture(family, cut, mode);
    }
  }
}

TEST_CASE("balanced experts train the same under every layout") {
  const std::string balancing = GENERATE("bias", "sequence");
  const Trained wanted = run_training(balancing, 1, 12, test::float32_fsdp2(1));
  const Trained without = run_training("none", 1, 12, test::float32_fsdp2(1));
  // The reported loss is the cross-entropy alone, which balancing changes only through updates.
  CHECK(wanted.losses[0] == without.losses[0]);
  CHECK(wanted.losses[3] != without.losses[3]);
  CHECK(wanted.auxiliary.size() == (balancing == "sequence" ? 4 : 0));
  CHECK(at::equal(wanted.weights.at(kBias), without.weights.at(kBias)) == (balancing != "bias"));
  for (const Way& way : ways()) {
    INFO(balancing << ", " << way.name);
    check_same(run_training(balancing, way.ranks, way.micro_batch, way.layout), wanted);
  }
}

TEST_CASE("a correction bias falls for experts that more tokens took, by the rate") {
  const config::Plan plan = test::parse(
      cat("[model]\npath = \"hf/deepseek_v3\"\n[train]\nseq_len = 16\n", test::float32_fsdp2(3)));
  // The mean is 3 tokens per expert. The bias of the first expert, which has exactly 3, does not
  // move.
  const std::vector<double> counts = {3, 4, 2, 0, 9, 1, 1, 4};
  const at::Tensor wanted = at::tensor({0.0, -0.5, 0.5, 0.5, -0.5, 0.5, 0.5, -0.5}, at::kFloat);
  runtime::run_ranks(3, [&](const runtime::World& world) {
    test::RankModel rank(plan, world);
    train::move_correction_biases(*rank.model, counts, 0.5);
    const at::Tensor moved = rank.model->full_parameter(kBias);
    const at::Tensor other = rank.model->full_parameter("model.layers.1.mlp.gate.weight");
    if (world.rank() != 0) return;
    CHECK(at::equal(moved, wanted));
    CHECK(at::count_nonzero(other).item<int64_t>() == 0);
  });
}

TEST_CASE("a correction bias that is stored as one row moves by the rate, too") {
  const config::Plan plan = test::parse(
      cat("[model]\npath = \"hf/ernie4_5_moe\"\n[train]\nseq_len = 16\n", test::float32_fsdp2(3)));
  const std::vector<double> counts = {3, 4, 2, 0, 6, 3};
  const at::Tensor wanted = at::tensor({0.0, -0.5, 0.5, 0.5, -0.5, 0.0}, at::kFloat).view({1, 6});
  runtime::run_ranks(3, [&](const runtime::World& world) {
    test::RankModel rank(plan, world);
    train::move_correction_biases(*rank.model, counts, 0.5);
    const at::Tensor moved =
        rank.model->full_parameter("model.layers.1.mlp.moe_statics.e_score_correction_bias");
    if (world.rank() == 0) CHECK(at::equal(moved, wanted));
  });
}

TEST_CASE("correction biases are saved, and go on from there") {
  const auto plan_of = [](int64_t steps, int64_t ranks) {
    config::Plan plan =
        test::parse(plan_text("bias", ranks == 1 ? 12 : 3, test::float32_fsdp2(ranks)));
    plan.train.max_steps = steps;
    return plan;
  };
  const Trained wanted = run_training(plan_of(4, 1), 1);
  const TemporaryFolder temporary;
  run_folder::RunFolder::create(temporary / "run");
  at::Tensor bias;
  const auto run = [&](int64_t steps, int64_t ranks) {
    const config::Plan plan = plan_of(steps, ranks);
    const launch::StopSignal stop;
    runtime::run_ranks(ranks, [&](const runtime::World& world) {
      Diagnostics found;
      const auto config = model::load_config(plan.resolve(plan.model.path), found);
      train::Trainer trainer(job::make_job(plan, *config, world.size()), world,
                             run_folder::RunFolder(temporary / "run"), {});
      trainer.run(stop);
      const at::Tensor whole = trainer.model().full_parameter(kBias);
      if (world.rank() == 0) bias = whole;
    });
  };
  run(2, 2);
  CHECK_FALSE(at::equal(bias, wanted.weights.at(kBias)));
  run(4, 1);
  CHECK(at::equal(bias, wanted.weights.at(kBias)));
}

}  // namespace am::expert_balance
