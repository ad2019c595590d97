// ParallelModel::forward_backward computes the same bits as a hand-written loop over micro-batches.
// The caller decides when gradients are reduced, as pipeline schedules require.
#include <ATen/ATen.h>

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "am/base/text.h"
#include "am/checkpoint/weights.h"
#include "am/frameworks/open_weights.h"
#include "am/parallel/sync_ctx.h"
#include "support/plans.h"
#include "support/rank_check.h"

namespace am::parallel {
namespace {

constexpr int64_t kRowLength = 16;
constexpr double kDivisor = 96.0;

// Provides `count` micro-batches of this rank, beginning with number `first`.
class RowsOfRank final : public MicroBatches {
 public:
  RowsOfRank(const runtime::DeviceMesh& mesh, int64_t first, int64_t count)
      : dp_(mesh.group("dp").index()), first_(first), count_(count) {}

  int64_t count() const override { return count_; }
  MicroBatch read(int64_t m) override {
    const at::Tensor row = (at::arange(kRowLength) * 7 + (first_ + m) * 11 + dp_ * 5).remainder(67);
    return {row.view({1, -1}), row.view({1, -1}), {}};
  }

 private:
  int64_t dp_, first_, count_;
};

config::Plan plan_with(int64_t world, const std::string& strategy) {
  return test::parse(cat("[model]\npath = \"hf/llama\"\n[train]\nseq_len = ", kRowLength,
                         "\nmicro_batch_size = 1\nglobal_batch_size = ", 3 * world,
                         "\n[mesh]\nworld_size = ", world, "\n[strategy]\n", strategy));
}

const std::vector<std::string>& strategies() {
  static const std::vector<std::string> all = {
      cat("name = \"fsdp2\"\n", test::kFullPrecision),
      "name = \"fsdp2\"\n",
      cat("name = \"fsdp2\"\ndefer_fsdp_grad_sync = false\n", test::kFullPrecision),
      "name = \"ddp\"\n",
      "name = \"megatron_fsdp\"\n",
      cat("name = \"fsdp2\"\nreshard_after_forward = false\n", test::kFullPrecision),
  };
  return all;
}

void load_llama(ParallelModel& model) {
  const auto source = frameworks::open_tensor_source(test::data_path("hf/llama/model.safetensors"));
  checkpoint::load(model, *source);
}

std::vector<at::Tensor> flat_gradients(ParallelModel& model) {
  std::vector<at::Tensor> flats;
  for (const auto& group : model.data_parallel().groups()) {
    flats.push_back(group->flat_grad().clone());
  }
  return flats;
}

bool equal_all(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    if (!at::equal(a[i], b[i])) return false;
  }
  return true;
}

struct ByHand {
  at::Tensor sum;
  std::vector<at::Tensor> gradients;
};

ByHand by_hand(ParallelModel& model, const config::Plan& plan, MicroBatches& batches) {
  model.data_parallel().zero_grad();
  ByHand result{at::zeros({1}, at::kDouble), {}};
  for (int64_t m = 0; m < batches.count(); ++m) {
    const MicroBatch batch = batches.read(m);
    const auto sync = get_sync_ctx(model.data_parallel(), plan.strategy, m + 1 == batches.count(),
                                   config::defers_gradient_sync(plan.strategy));
    const at::Tensor loss = model.loss_sum(model.forward(batch.ids_BT), batch.labels_BT);
    (loss / kDivisor).backward();
    model.data_parallel().finish_backward();
    result.sum.add_(loss.detach());
  }
  result.gradients = flat_gradients(model);
  return result;
}

}  // namespace

TEST_CASE("forward_backward is the loop over micro-batches, whatever the strategy") {
  for (const std::string& strategy : strategies()) {
    const config::Plan plan = plan_with(2, strategy);
    runtime::run_ranks(2, [&](const runtime::World& world) {
      test::RankModel rank(plan, world);
      load_llama(*rank.model);
      RowsOfRank batches(rank.mesh, 0, 3);
      const ByHand wanted = by_hand(*rank.model, plan, batches);
      rank.model->data_parallel().zero_grad();
      std::vector<std::string> phases;
      PassOptions options;
      options.divisor = kDivisor;
      options.phase_over = [&](const char* phase) { phases.emplace_back(phase); };
      const at::Tensor sum = rank.model->forward_backward(batches, options);
      RANK_CHECK(at::equal(sum, wanted.sum));
      RANK_CHECK(equal_all(flat_gradients(*rank.model), wanted.gradients));
      const std::vector<std::string> both = {"forward", "backward"};
      RANK_CHECK(phases == both);
      RANK_CHECK(at::equal(rank.model->forward_only(batches), wanted.sum));
      RANK_CHECK(equal_all(flat_gradients(*rank.model), wanted.gradients));
    });
  }
}

TEST_CASE("a pass that is not the last one keeps its gradients for the one that is") {
  for (const std::string& strategy : {strategies()[0], strategies()[3]}) {
    const config::Plan plan = plan_with(2, strategy);
    runtime::run_ranks(2, [&](const runtime::World& world) {
      test::RankModel rank(plan, world);
      load_llama(*rank.model);
      RowsOfRank all(rank.mesh, 0, 3), first(rank.mesh, 0, 2), rest(rank.mesh, 2, 1);
      const ByHand wanted = by_hand(*rank.model, plan, all);
      rank.model->data_parallel().zero_grad();
      int64_t reductions = 0;
      world.context()->on_collective = [&](const runtime::Collective& collective, int64_t) {
        const std::string op = collective.op;
        if (op == "reduce_scatter" || op == "all_reduce") ++reductions;
      };
      at::Tensor sum = rank.model->forward_backward(first, {.divisor = kDivisor, .reduce = false});
      RANK_CHECK(reductions == 0);
      sum += rank.model->forward_backward(rest, {.divisor = kDivisor});
      RANK_CHECK(reductions > 0);
      world.context()->on_collective = nullptr;
      RANK_CHECK(at::equal(sum, wanted.sum));
      RANK_CHECK(equal_all(flat_gradients(*rank.model), wanted.gradients));
    });
  }
}

// If gradient sync and resharding after backward are switched off, backward frees no unit and
// reduces no gradients. The actions RESHARD and REDUCE_GRAD of pipeline schedules rely on this
// behaviour.
TEST_CASE("gradients are reduced when they are asked to be, and units stay until then") {
  for (const std::string& strategy : strategies()) {
    if (strategy.find("defer_fsdp_grad_sync") != std::string::npos) continue;
    const config::Plan plan = plan_with(2, strategy);
    runtime::run_ranks(2, [&](const runtime::World& world) {
      test::RankModel rank(plan, world);
      load_llama(*rank.model);
      DataParallel& data_parallel = rank.model->data_parallel();
      RowsOfRank batches(rank.mesh, 0, 3);
      // The expected gradients come from one reduction after all micro-batches.
      data_parallel.zero_grad();
      std::vector<std::string> messages;
      const auto run = [&] {
        for (int64_t m = 0; m < batches.count(); ++m) {
          const MicroBatch batch = batches.read(m);
          (rank.model->loss_sum(rank.model->forward(batch.ids_BT), batch.labels_BT) / kDivisor)
              .backward();
          data_parallel.finish_backward();
          if (m == 0) messages.clear();
        }
      };
      data_parallel.set_requires_gradient_sync(false);
      run();
      data_parallel.reduce_gradients();
      const std::vector<at::Tensor> wanted = flat_gradients(*rank.model);

      data_parallel.zero_grad();
      data_parallel.unshard("");
      data_parallel.set_reshard_after_backward(false);
      world.context()->on_collective = [&](const runtime::Collective& collective, int64_t) {
        messages.emplace_back(collective.op);
      };
      run();
      for (const auto& group : data_parallel.groups()) RANK_CHECK(!group->gradients().any_new());
      const bool stays = strategy.find("ddp") != std::string::npos ||
                         strategy.find("reshard_after_forward = false") != std::string::npos;
      if (stays) RANK_CHECK(messages.empty());
      for (const std::string& op : messages) RANK_CHECK(op == "all_gather");
      messages.clear();
      data_parallel.reduce_gradients();
      RANK_CHECK(!messages.empty());
      for (const std::string& op : messages) RANK_CHECK(op != "all_gather");
      world.context()->on_collective = nullptr;
      RANK_CHECK(equal_all(flat_gradients(*rank.model), wanted));
      // All units are still gathered except the embedding, which forward freed and backward does
      // not read.
      for (const auto& group : data_parallel.groups()) {
        RANK_CHECK(group->is_unsharded() || group->name() == "model.embed_tokens");
      }
      data_parallel.set_reshard_after_backward(true);
      data_parallel.reshard("");
      // A second reduce_gradients() has nothing to send.
      data_parallel.reduce_gradients();
      RANK_CHECK(equal_all(flat_gradients(*rank.model), wanted));
    });
  }
}

// reduce_gradients() after the last micro-batch computes the same bits as a plan with deferred
// gradient sync.
TEST_CASE("reduce_gradients gives the bits of a deferred reduction") {
  for (const std::string& strategy : {strategies()[0], strategies()[1], strategies()[3]}) {
    const config::Plan plan = plan_with(2, strategy);
    runtime::run_ranks(2, [&](const runtime::World& world) {
      test::RankModel rank(plan, world);
      load_llama(*rank.model);
      RowsOfRank batches(rank.mesh, 0, 3);
      const ByHand wanted = by_hand(*rank.model, plan, batches);
      DataParallel& data_parallel = rank.model->data_parallel();
      data_parallel.zero_grad();
      data_parallel.set_requires_gradient_sync(false);
      for (int64_t m = 0; m < batches.count(); ++m) {
        const MicroBatch batch = batches.read(m);
        (rank.model->loss_sum(rank.model->forward(batch.ids_BT), batch.labels_BT) / kDivisor)
            .backward();
        data_parallel.finish_backward();
      }
      data_parallel.reduce_gradients();
      RANK_CHECK(equal_all(flat_gradients(*rank.model), wanted.gradients));
    });
  }
}

}  // namespace am::parallel
