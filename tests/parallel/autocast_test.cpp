// Logits, loss and gradients under autocast equal those of transformers under torch.autocast, on
// the same weights (tests/data/hf/*/autocast.safetensors, made by
// scripts/fixtures/make_fixtures.py).
#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>

#include <catch2/catch.hpp>

#include "am/base/text.h"
#include "am/checkpoint/read_tensor.h"
#include "am/checkpoint/weights.h"
#include "am/frameworks/open_weights.h"
#include "support/plans.h"
#include "support/rank_check.h"

namespace am {
namespace {

constexpr double kTolerance =
    2e-2;  // bfloat16 has 8 significant bits, and values are rounded twice

// Both strategies keep the weights in float32.
const std::string kFsdp2 = "name = \"fsdp2\"\n" + test::kFullPrecision;
const std::string kDdp = "name = \"ddp\"\n";

std::string plan_text(const std::string& family, const std::string& strategy) {
  return cat("[model]\npath = \"hf/", family, "\"\n[train]\nseq_len = 16\nmicro_batch_size = 2\n",
             "[mesh]\nworld_size = 1\n[strategy]\n", strategy);
}

struct Pass {
  at::Tensor logits, loss;
  std::vector<std::pair<std::string, at::Tensor>> gradients;
};

Pass pass(const std::string& family, const std::string& strategy) {
  const config::Plan plan = test::parse(plan_text(family, strategy));
  Pass result;
  runtime::run_ranks(1, [&](const runtime::World& world) {
    test::RankModel rank(plan, world);
    checkpoint::load(*rank.model, *frameworks::open_tensor_source(
                                      test::data_path(cat("hf/", family, "/model.safetensors"))));
    const auto reference = frameworks::open_tensor_source(
        test::data_path(cat("hf/", family, "/reference.safetensors")));
    const at::Tensor labels = checkpoint::read_all(*reference, "labels");
    const at::Tensor logits = rank.model->forward(checkpoint::read_all(*reference, "input_ids"));
    const at::Tensor loss = rank.model->loss_sum(logits, labels) /
                            labels.ne(parallel::kIgnoreIndex).sum().item<double>();
    loss.backward();
    rank.model->data_parallel().finish_backward();
    CHECK_FALSE(at::autocast::is_autocast_enabled(at::kCPU));
    CHECK(loss.scalar_type() == at::kFloat);
    RANK_CHECK(rank.model->groups().front()->flat().scalar_type() == at::kFloat);
    result.logits = logits.detach();
    result.loss = loss.detach().view({1});
    rank.model->for_each_owned(
        [&](parallel::ParamGroup& group, size_t i, const parallel::LocalParameter& owned) {
          result.gradients.emplace_back(owned.name, group.view_in(group.flat_grad(), i).clone());
        });
  });
  return result;
}

}  // namespace

TEST_CASE("the forward under autocast equals torch.autocast's") {
  const std::string family = GENERATE("llama", "qwen3");
  const std::string strategy = GENERATE(kFsdp2, kDdp);
  const std::string mode = GENERATE("false", "true", "\"selective\"", "\"mlp\"");
  INFO(family << ", " << strategy << ", checkpointing " << mode);
  const auto wanted =
      frameworks::open_tensor_source(test::data_path(cat("hf/", family, "/autocast.safetensors")));
  const Pass got =
      pass(family,
           cat(strategy, "autocast_dtype = \"bfloat16\"\nactivation_checkpointing = ", mode, "\n"));
  CHECK(test::relative_difference(got.logits, checkpoint::read_all(*wanted, "logits")) <
        kTolerance);
  CHECK(test::relative_difference(got.loss, checkpoint::read_all(*wanted, "loss")) < 1e-3);
  for (const auto& [name, gradient] : got.gradients) {
    INFO(name);
    CHECK(test::relative_difference(gradient, checkpoint::read_all(*wanted, "grad." + name)) <
          kTolerance);
  }
  // Each logit is a bfloat16 value, unlike those of a float32 forward.
  CHECK(at::equal(got.logits, got.logits.to(at::kBFloat16).to(at::kFloat)));
  const Pass plain = pass(family, strategy);
  CHECK_FALSE(at::equal(plain.logits, plain.logits.to(at::kBFloat16).to(at::kFloat)));
}

}  // namespace am
