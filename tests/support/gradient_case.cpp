#include "support/gradient_case.h"

#include <ATen/ATen.h>

#include <mutex>

#include "am/base/text.h"
#include "am/checkpoint/weights.h"
#include "support/plans.h"

namespace am::test {

namespace {

constexpr double kLossDivisor = 300.0;

config::Plan plan_of_case(const GradientCase& one, const std::string& sections) {
  const bool alone = one.world == 1;
  return parse(cat("[model]\npath = \"hf/", one.family, "\"\n[train]\nseq_len = ", one.length,
                   "\nmicro_batch_size = 2\n[mesh]\nworld_size = ", one.world, "\n",
                   alone ? std::string() : one.mesh, alone ? std::string() : sections,
                   "[strategy]\nname = \"fsdp2\"\n", kFullPrecision,
                   alone ? std::string() : one.strategy));
}

// Provides micro-batches of two sequences. Each micro-batch has other tokens and labels.
class CaseRows final : public parallel::MicroBatches {
 public:
  CaseRows(const GradientCase& one, int64_t dp_index, int64_t dp_size)
      : one_(one), index_(dp_index), size_(dp_size) {}
  int64_t count() const override { return 4 / size_; }
  parallel::MicroBatch read(int64_t m) override {
    const at::Tensor places = at::arange(2 * one_.length).view({2, one_.length});
    const at::Tensor ids = (places * places + places * 7 + (m * size_ + index_) * 11).remainder(61);
    const at::Tensor labels = (ids * 3 + places).remainder(61);
    labels.narrow(1, 2, 1).fill_(parallel::kIgnoreIndex);
    parallel::MicroBatch batch = {ids, labels, {}, 0};
    if (one_.packed) {
      const at::Tensor own = at::arange(one_.length);
      batch.positions_BT = at::stack({own.remainder(one_.length / 2 + 1), own.remainder(5)});
    }
    return batch;
  }

 private:
  const GradientCase& one_;
  int64_t index_, size_;
};

double balance_of(parallel::ParallelModel& model) {
  const at::Tensor sum = model.take_balance();
  return sum.defined() ? sum.item<double>() : 0.0;
}

GradientOutcome on_rank(const GradientCase& one, const std::string& sections,
                        const runtime::World& world) {
  RankModel rank(plan_of_case(one, sections), world);
  checkpoint::initialize(*rank.model, 3);
  const runtime::Group& dp = rank.mesh.group("dp");
  CaseRows rows(one, dp.index(), dp.size());
  GradientOutcome mine;
  mine.loss_without_graph = rank.model->forward_only(rows).item<double>();
  rank.model->data_parallel().reshard("");
  rank.model->take_expert_counts();
  rank.model->data_parallel().zero_grad();
  if (rank.config.moe) {
    rank.model->take_balance();
    rank.model->set_balance_factor(0.3);
  }
  mine.loss = rank.model->forward_backward(rows, {.divisor = kLossDivisor}).item<double>();
  if (rank.config.moe) mine.balance = balance_of(*rank.model);
  mine.expert_counts = rank.model->take_expert_counts();
  for (const auto& parameter : rank.layout.parameters) {
    if (!parameter.trainable) continue;
    mine.gradients[parameter.name] = rank.model->full_gradient(parameter.name).clone();
  }
  // All ranks of a tp group compute the same loss, so only the first of them adds it to the sum.
  if (rank.mesh.group("tp").index() != 0) mine.loss = mine.loss_without_graph = 0.0;
  return mine;
}

}  // namespace

std::string GradientCase::name() const {
  return cat(family, ", ", world, " ranks, T ", length, packed ? ", packed " : " ", mesh, strategy);
}

std::vector<GradientOutcome> gradients_of(const GradientCase& one,
                                          const std::vector<std::string>& sections) {
  std::vector<GradientOutcome> outcomes(sections.size());
  std::mutex mutex;
  runtime::run_ranks(one.world, [&](const runtime::World& world) {
    for (size_t i = 0; i < sections.size(); ++i) {
      GradientOutcome mine = on_rank(one, sections[i], world);
      const std::lock_guard lock(mutex);
      GradientOutcome& all = outcomes[i];
      all.loss += mine.loss;
      all.loss_without_graph += mine.loss_without_graph;
      all.balance += mine.balance;
      all.expert_counts.resize(mine.expert_counts.size());
      for (size_t e = 0; e < mine.expert_counts.size(); ++e) {
        all.expert_counts[e] += mine.expert_counts[e];
      }
      if (world.rank() == 0) all.gradients = std::move(mine.gradients);
    }
  });
  return outcomes;
}

const GradientOutcome& gradients_of_one_rank(const GradientCase& one) {
  static std::map<std::string, GradientOutcome> made;
  const std::string key = cat(one.family, " ", one.length, one.packed ? " packed" : "");
  const auto found = made.find(key);
  if (found != made.end()) return found->second;
  GradientCase alone = one;
  alone.world = 1;
  return made[key] = gradients_of(alone, {""}).front();
}

}  // namespace am::test
