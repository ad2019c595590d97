// Tests backward in two halves (input gradients first, weight gradients later) under data and
// tensor parallelism. Units may be freed between the halves. The reduced gradients equal those of a
// single backward bit by bit.
#include <ATen/ATen.h>

#include <catch2/catch.hpp>
#include <map>
#include <string>
#include <vector>

#include "am/base/text.h"
#include "am/checkpoint/read_tensor.h"
#include "am/checkpoint/weights.h"
#include "am/frameworks/open_weights.h"
#include "am/nn/weight_pass.h"
#include "support/model_step.h"
#include "support/plans.h"
#include "support/rank_check.h"

namespace am {
namespace {

constexpr int kHalvedPasses = 3;

test::StepResult step_in_passes(parallel::ParallelModel& model, const std::string& family,
                                bool in_halves) {
  const std::string folder = test::data_path(cat("hf/", family));
  checkpoint::load(model, *frameworks::open_tensor_source(folder + "/model.safetensors"));
  const auto reference = frameworks::open_tensor_source(folder + "/reference.safetensors");
  const at::Tensor ids = checkpoint::read_all(*reference, "input_ids"),
                   labels = checkpoint::read_all(*reference, "labels");
  parallel::DataParallel& data_parallel = model.data_parallel();
  data_parallel.zero_grad();
  data_parallel.set_requires_gradient_sync(false);
  std::vector<nn::WeightPassPtr> passes;
  for (int m = 0; m < kHalvedPasses; ++m) {
    passes.push_back(c10::make_intrusive<nn::WeightPass>());
    at::Tensor loss;
    {
      const nn::WeightPassScope scope(passes.back());
      loss = model.loss_sum(model.forward((ids + m).remainder(model.config().vocab_size)), labels);
    }
    if (in_halves) {
      const nn::WeightPass::Postponed inputs(*passes.back());
      loss.backward();
    } else {
      loss.backward();
    }
    data_parallel.finish_backward();
    RANK_CHECK((passes.back()->deferred() > 0) == in_halves);
    // The weight gradients of a micro-batch are computed one pass later, as in a zero-bubble
    // schedule.
    if (m > 0) passes[static_cast<size_t>(m) - 1]->settle();
  }
  passes.back()->settle();
  data_parallel.reduce_gradients();
  test::StepResult result;
  for (const auto& group : data_parallel.groups()) {
    result[cat("unit ", group->name())] = group->flat_grad().clone();
  }
  return result;
}

}  // namespace

TEST_CASE("weights' gradients that come late are reduced to the same bits", "[weight_pass]") {
  const std::string family = GENERATE("llama", "phi3", "gpt_oss");
  const test::LayoutCase layout = GENERATE(
      test::LayoutCase{"fsdp2", 2, test::float32_fsdp2(2)},
      test::LayoutCase{"fsdp2, checkpointed", 2,
                       test::float32_fsdp2(2, "", "activation_checkpointing = true\n")},
      test::LayoutCase{"fsdp2 in bfloat16", 2,
                       "[mesh]\nworld_size = 2\n[strategy]\nname = \"fsdp2\"\n"},
      test::LayoutCase{"ddp", 2, "[mesh]\nworld_size = 2\n[strategy]\nname = \"ddp\"\n"},
      test::LayoutCase{"tp 2, sequence parallel", 2,
                       test::float32_fsdp2(2, "tp_size = 2\n", "sequence_parallel = true\n")});
  INFO(family << ", " << layout.name);
  const config::Plan plan =
      test::parse(cat("[model]\npath = \"hf/", family,
                      "\"\n[train]\nseq_len = 16\nmicro_batch_size = 2\n", layout.toml));
  runtime::run_ranks(layout.ranks, [&](const runtime::World& world) {
    test::RankModel rank(plan, world);
    const test::StepResult at_once = step_in_passes(*rank.model, family, false);
    const test::StepResult in_halves = step_in_passes(*rank.model, family, true);
    RANK_CHECK(test::same_bits(in_halves, at_once));
  });
}

}  // namespace am
