// Adapter dropout during training depends on the seed, but not on how a global batch is divided
// into micro-batches and over ranks.
#include <catch2/catch.hpp>
#include <filesystem>

#include "am/base/text.h"
#include "am/job/job.h"
#include "am/model/config.h"
#include "am/runtime/world.h"
#include "am/train/trainer.h"
#include "support/plans.h"

namespace am {
namespace {

struct Cut {
  std::string name;
  int64_t ranks, micro_batch;
  std::string mesh, strategy;
};

std::vector<double> losses(const Cut& cut, int64_t seed) {
  const config::Plan plan = test::parse(
      cat("[model]\npath = \"hf/llama\"\n[train]\nseq_len = 16\nglobal_batch_size = 12\n",
          "micro_batch_size = ", cut.micro_batch, "\nmax_steps = 3\nseed = ", seed,
          "\n[optimizer]\nlr = 1e-2\n[lora]\nrank = 4\nalpha = 8\ndropout = 0.3\n",
          "target_modules = [\"all-linear\"]\n",
          "[data]\nkind = \"tokens\"\npath = \"loop/tokens.bin\"\nshuffle = false\n",
          test::float32_fsdp2(cut.ranks, cut.mesh, cut.strategy)));
  const std::filesystem::path nowhere = std::filesystem::temp_directory_path() / "am-no-such-run";
  std::vector<double> all;
  runtime::run_ranks(cut.ranks, [&](const runtime::World& world) {
    Diagnostics found;
    const auto config = model::load_config(plan.resolve(plan.model.path), found);
    train::Trainer trainer(job::make_job(plan, *config, world.size()), world,
                           run_folder::RunFolder(nowhere), {});
    for (int64_t step = 0; step < plan.train.max_steps; ++step) {
      const double loss = trainer.train_step(step).loss;
      if (world.rank() == 0) all.push_back(loss);
    }
  });
  return all;
}

}  // namespace

TEST_CASE("adapters' dropout does not depend on the cut of the batch") {
  const std::string checkpointed = "activation_checkpointing = true\n";
  const std::vector<double> wanted = losses({"", 1, 12, "", ""}, 5);
  CHECK(losses({"", 1, 12, "", ""}, 6)[2] != Approx(wanted[2]).epsilon(1e-5));
  for (const Cut& cut : {Cut{"2 micro-batches", 1, 6, "", ""}, Cut{"fsdp2 on 3", 3, 2, "", ""},
                         Cut{"hsdp, checkpointed", 4, 3, "dp_replicate_size = 2\n", checkpointed},
                         Cut{"tp 2 x fsdp2 2, sequence parallel", 4, 3, "tp_size = 2\n",
                             "sequence_parallel = true\n"}}) {
    INFO(cut.name);
    const std::vector<double> got = losses(cut, 5);
    for (size_t i = 0; i < wanted.size(); ++i) CHECK(got[i] == Approx(wanted[i]).epsilon(1e-5));
  }
}

}  // namespace am
