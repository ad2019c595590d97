// Packed sequences, several in one row, have the logits of transformers
// (tests/data/hf/*/packed.safetensors, made by scripts/fixtures/make_fixtures.py) and the gradients
// of the same sequences one by one.
#include <ATen/ATen.h>

#include <catch2/catch.hpp>
#include <optional>

#include "am/base/text.h"
#include "am/checkpoint/read_tensor.h"
#include "am/checkpoint/weights.h"
#include "am/data/batch.h"
#include "am/frameworks/open_weights.h"
#include "am/nn/fused/device.h"
#include "am/train/trainer.h"
#include "support/plans.h"
#include "support/rank_check.h"

namespace am {
namespace {

std::string plan_text(const std::string& family, int64_t world, const std::string& strategy) {
  return cat("[model]\npath = \"hf/", family,
             "\"\n[train]\nseq_len = 16\n[mesh]\nworld_size = ", world, "\n", strategy,
             "mp_policy = { param_dtype = \"float32\", reduce_dtype = \"float32\", output_dtype = "
             "\"float32\" }\n");
}

double logits_apart(const std::string& family, int64_t world, const std::string& strategy,
                    const std::string& wanted) {
  const config::Plan plan = test::parse(plan_text(family, world, strategy));
  const std::string folder = test::data_path(cat("hf/", family));
  const auto packed = frameworks::open_tensor_source(folder + "/packed.safetensors");
  const at::Tensor ids = checkpoint::read_all(
      *frameworks::open_tensor_source(folder + "/reference.safetensors"), "input_ids");
  double apart = 0.0;
  runtime::run_ranks(world, [&](const runtime::World& each) {
    test::RankModel rank(plan, each);
    checkpoint::load(*rank.model, *frameworks::open_tensor_source(folder + "/model.safetensors"));
    const at::Tensor logits = rank.model->forward(ids, checkpoint::read_all(*packed, "positions"));
    const at::Tensor full = rank.model->full_logits(logits);
    if (each.rank() == 0)
      apart = test::relative_difference(full, checkpoint::read_all(*packed, wanted));
  });
  return apart;
}

}  // namespace

TEST_CASE("packed sequences give transformers' logits") {
  const std::string family = GENERATE("llama", "mistral", "gemma3_text", "smollm3");
  std::optional<nn::fused::PassForGpu>
      gpu;  // flash attention as on GPUs (support/flash_stand_in.cpp)
  if (GENERATE(false, true)) gpu.emplace();
  const std::string patched = "[strategy]\npatch_is_packed_sequence = true\n";
  const std::string tp = "tp_size = 2\n[strategy]\nsequence_parallel = true\n";
  CHECK(logits_apart(family, 1, "[strategy]\n", "logits") < 1e-5);
  CHECK(logits_apart(family, 2, tp, "logits") < 1e-5);
  CHECK(logits_apart(family, 1, patched, "across") < 1e-5);
  CHECK(logits_apart(family, 1, patched, "logits") > 1e-2);
}

TEST_CASE("packed sequences give the gradients of each alone, checkpointed or not") {
  const std::string checkpointing = GENERATE("false", "\"full\"", "\"selective\"", "\"mlp\"");
  const config::Plan plan = test::parse(
      plan_text("qwen3", 1, cat("[strategy]\nactivation_checkpointing = ", checkpointing, "\n")));
  runtime::run_ranks(1, [&](const runtime::World& world) {
    test::RankModel rank(plan, world);
    checkpoint::load_or_initialize(*rank.model, plan);
    auto& data_parallel = rank.model->data_parallel();
    const at::Tensor ids = (at::arange(16) * 7).remainder(97).view({1, 16});
    const at::Tensor labels = (ids + 3).remainder(97);
    const auto gradients = [&] {
      std::vector<at::Tensor> all;
      for (const auto& group : data_parallel.groups()) all.push_back(group->flat_grad().clone());
      return at::cat(all);
    };
    const at::Tensor positions = at::cat({at::arange(6), at::arange(10)}).view({1, 16});
    rank.model->loss_sum(rank.model->forward(ids, positions), labels).backward();
    data_parallel.finish_backward();
    const at::Tensor together = gradients();
    data_parallel.zero_grad();
    for (const auto& [first, count] : {std::pair<int64_t, int64_t>{0, 6}, {6, 10}}) {
      const at::Tensor part = ids.narrow(1, first, count);
      rank.model->loss_sum(rank.model->forward(part), labels.narrow(1, first, count)).backward();
      data_parallel.finish_backward();
    }
    RANK_CHECK(test::relative_difference(together, gradients()) < 1e-5);
  });
}

TEST_CASE("training keeps documents apart where the plan says so") {
  const auto loss = [](const std::string& data, const std::string& strategy) {
    const config::Plan plan = test::parse(cat(
        "[model]\npath = \"loop/model\"\n[train]\nseq_len = 16\nmicro_batch_size = 16\n[mesh]\n",
        "world_size = 2\n[data]\nkind = \"tokens\"\npath = \"loop/tokens.bin\"\n", data,
        "[strategy]\n", strategy));
    double found = 0.0;
    const auto nowhere = std::filesystem::temp_directory_path() / "am-no-such-run";
    runtime::run_ranks(2, [&](const runtime::World& world) {
      Diagnostics diagnostics;
      const auto config = model::load_config(plan.resolve(plan.model.path), diagnostics);
      train::Trainer trainer(job::make_job(plan, *config, world.size()), world,
                             run_folder::RunFolder(nowhere), {});
      const double mine = trainer.train_step(0).loss;
      if (world.rank() == 0) found = mine;
    });
    return found;
  };
  const std::string documents = "reset_position_ids = true\neod_token = 3\n";
  const double whole = loss("", "");
  const double apart = loss(documents, "");
  const double across = loss(documents, "patch_is_packed_sequence = true\n");
  CHECK(whole != apart);
  CHECK(across != apart);
  CHECK(across != whole);
}

}  // namespace am
