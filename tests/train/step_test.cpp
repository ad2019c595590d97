// Ranks exchange the loss, the gradient norm, the memory peak and the stop and save requests of a
// step in one message, and all ranks receive equal results.
#include "am/train/step.h"

#include <ATen/ATen.h>

#include <catch2/catch.hpp>

#include "am/base/text.h"
#include "am/checkpoint/weights.h"
#include "am/frameworks/open_weights.h"
#include "am/optim/from_plan.h"
#include "support/plans.h"
#include "support/rank_check.h"

namespace am::train {
namespace {

constexpr int64_t kGlobalBatch = 4;
constexpr int64_t kSeqLen = 16;

// This rank's rows of a global batch, one per micro-batch.
class FixedRows : public BatchSource {
 public:
  explicit FixedRows(const runtime::DeviceMesh& mesh) : dp_(mesh.group("dp")) {}

  MicroBatch read(int64_t /*step*/, int64_t micro_batch) override {
    const at::Tensor all = at::arange(kGlobalBatch * kSeqLen).remainder(67).view({-1, kSeqLen});
    const at::Tensor row = all.narrow(0, dp_.size() * micro_batch + dp_.index(), 1);
    return {row, row, {}};
  }
  int64_t labels(int64_t /*step*/) override { return kGlobalBatch * kSeqLen; }

 private:
  const runtime::Group& dp_;
};

struct Reports : StepObserver {
  StepReport mine;
  StepReport report() override { return mine; }
};

config::Plan plan_of(int64_t world, const std::string& mesh) {
  return test::parse(
      cat("[model]\npath = \"hf/llama\"\n[train]\nseq_len = ", kSeqLen,
          "\nmicro_batch_size = 1\nglobal_batch_size = ", kGlobalBatch,
          "\n[mesh]\nworld_size = ", world, "\n", mesh,
          "[strategy]\nmp_policy = { param_dtype = \"float32\", reduce_dtype = \"float32\", "
          "output_dtype = \"float32\" }\n"));
}

// One rank's results of a step; run_step() checks that they are equal on every rank.
struct Told {
  StepNumbers numbers;
  int64_t world_messages = 0;
};

Told run_step(int64_t ranks, const std::string& mesh) {
  const config::Plan plan = plan_of(ranks, mesh);
  const std::string weights = test::data_path("hf/llama/model.safetensors");
  std::vector<Told> told(static_cast<size_t>(ranks));
  runtime::run_ranks(ranks, [&](const runtime::World& world) {
    test::RankModel rank(plan, world);
    checkpoint::load(*rank.model, *frameworks::open_tensor_source(weights));
    const auto optimizer = optim::make_optimizer(plan, *rank.model);
    Reports reports;
    reports.mine.peak_memory_bytes = 1000 + (7 * world.rank()) % 5;
    reports.mine.stop = world.rank() == ranks - 1;
    reports.mine.save = world.rank() == 0;
    FixedRows rows(rank.mesh);
    Step step(plan, *rank.model, *optimizer, reports);
    Told& mine = told[static_cast<size_t>(world.rank())];
    world.context()->on_collective = [&](const runtime::Collective& collective, int64_t) {
      if (std::string(collective.group) == "world") ++mine.world_messages;
    };
    mine.numbers = step.backward(rows, 0);
    world.context()->on_collective = nullptr;
  });
  for (const Told& each : told) {
    CHECK(each.numbers.loss_sum == told[0].numbers.loss_sum);
    CHECK(each.numbers.grad_norm == told[0].numbers.grad_norm);
    CHECK(each.numbers.of_any_rank.peak_memory_bytes ==
          told[0].numbers.of_any_rank.peak_memory_bytes);
    CHECK(each.numbers.of_any_rank.stop);
    CHECK(each.numbers.of_any_rank.save);
    CHECK(each.world_messages == told[0].world_messages);
  }
  return told[0];
}

}  // namespace

TEST_CASE("a step's loss, norm, memory and requests are everybody's after one message") {
  const Told alone = run_step(1, "");
  CHECK(alone.world_messages == 0);
  CHECK(alone.numbers.of_any_rank.peak_memory_bytes == 1000);
  const std::string mesh = GENERATE("", "tp_size = 2\n", "dp_replicate_size = 2\n");
  INFO(mesh);
  const Told four = run_step(4, mesh);
  CHECK(four.world_messages == 1);
  CHECK(four.numbers.of_any_rank.peak_memory_bytes == 1004);  // the peak of rank 2
  CHECK(four.numbers.loss_sum == Approx(alone.numbers.loss_sum).epsilon(1e-6));
  CHECK(four.numbers.grad_norm == Approx(alone.numbers.grad_norm).epsilon(1e-5));
}

}  // namespace am::train
