// Ids and labels outside the vocabulary cause the same error on every layout.
#include <ATen/ATen.h>

#include <catch2/catch.hpp>

#include "am/base/error.h"
#include "am/base/text.h"
#include "am/checkpoint/weights.h"
#include "support/plans.h"
#include "support/rank_check.h"

namespace am {
namespace {

constexpr int64_t kVocabulary = 97;  // vocab_size of tests/data/hf/llama

config::Plan plan_for(int64_t tp) {
  return test::parse(
      cat("[model]\npath = \"hf/llama\"\n[train]\nseq_len = 8\n[mesh]\nworld_size = ", tp,
          "\ntp_size = ", tp, "\n[strategy]\nmp_policy = { param_dtype = ",
          "\"float32\", reduce_dtype = \"float32\", output_dtype = \"float32\" }\n"));
}

// Returns the error message of a forward pass and its loss; empty if both succeed.
std::string refusal(parallel::ParallelModel& model, const at::Tensor& ids,
                    const at::Tensor& labels) {
  try {
    model.loss_sum(model.forward(ids), labels);
  } catch (const Error& error) {
    return error.kind() == ErrorKind::kUsage ? error.what() : "another kind";
  }
  return {};
}

}  // namespace

TEST_CASE("an id or a label outside the vocabulary is the same error under every layout") {
  const int64_t tp = GENERATE(1, 2);
  const config::Plan plan = plan_for(tp);
  runtime::run_ranks(tp, [&](const runtime::World& world) {
    test::RankModel rank(plan, world);
    checkpoint::load_or_initialize(*rank.model, plan);
    const at::Tensor good = at::arange(8).view({1, 8});
    for (const int64_t bad : {int64_t{-1}, kVocabulary, int64_t{100000}}) {
      at::Tensor wrong = good.clone();
      wrong[0][3] = bad;
      RANK_CHECK(refusal(*rank.model, good, wrong) ==
                 cat("label ", bad, " is outside the vocabulary of 97"));
      RANK_CHECK(refusal(*rank.model, wrong, good) ==
                 cat("token id ", bad, " is outside the vocabulary of 97"));
    }
    RANK_CHECK(refusal(*rank.model, good, good).empty());
    // kIgnoreIndex marks a label that is ignored, as in PyTorch.
    at::Tensor ignored = good.clone();
    ignored[0][3] = parallel::kIgnoreIndex;
    RANK_CHECK(refusal(*rank.model, good, ignored).empty());
    RANK_CHECK(!refusal(*rank.model, ignored, good).empty());
  });
}

}  // namespace am
