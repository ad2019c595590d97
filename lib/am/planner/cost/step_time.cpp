#include "am/planner/cost/step_time.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "am/planner/cost/pass_time.h"

namespace am::planner {
namespace {

class Model {
 public:
  Model(const Workload& job, const Gpu& gpu, const CostConstants& constants)
      : job_(job), gpu_(gpu), c_(constants), times_(job, gpu, constants) {}

  // Null: no simulation.
  using Pipeline = std::function<PipelineTime(const std::vector<schedule::StageDurations>&)>;

  StepTime run(const Pipeline& pipeline) {
    std::vector<Passes> groups;
    for (const LayerGroup& group : job_.model.layers) groups.push_back(times_.layer(group.profile));
    run_pipeline(groups, times_.head(), pipeline);
    add_data_parallel(groups);
    add_optimizer();
    time_.fixed = c_[Constant::kStepSeconds] * times_.own_host();
    finish();
    return time_;
  }

 private:
  double c(Constant constant) const { return c_[constant]; }

  void run_pipeline(const std::vector<Passes>& groups, const Passes& head,
                    const Pipeline& simulate) {
    const auto stages = deal_layers(job_);
    const double hop = job_.pp > 1.0 ? hop_seconds() : 0.0;
    std::vector<schedule::StageDurations> durations;
    Pass all;
    for (size_t stage = 0; stage < stages.stages(); ++stage) {
      Pass forward, backward;
      for (size_t group = 0; group < groups.size(); ++group) {
        forward.add(groups[group].forward, stages.at(stage, group));
        backward.add(groups[group].backward, stages.at(stage, group) * job_.backward_layers);
      }
      if (stage + 1 == stages.stages()) {
        forward.add(head.forward, 1.0);
        backward.add(head.backward, 1.0);
      }
      all.add(forward, 1.0);
      all.add(backward, 1.0);
      const double half = (backward.seconds() + hop) / 2.0;
      durations.push_back({forward.seconds() + hop, half, half});
    }
    const double per_rank = job_.micro_batches / job_.pp;
    time_.products = all.products * per_rank;
    time_.attention = all.attention * per_rank;
    time_.memory_bound = all.memory_bound * per_rank;
    time_.launching = all.launching * per_rank;
    time_.tp = all.tp * per_rank;
    time_.cp = all.cp * per_rank;
    time_.ep = all.ep * per_rank;
    time_.pp = 2.0 * hop * static_cast<double>(stages.stages()) * per_rank;
    computing_ = all.seconds() * per_rank + time_.pp;
    if (job_.pp <= 1.0) return;
    const double one = computing_ / job_.micro_batches;
    const double seconds = simulate ? simulate(durations).seconds
                                    : computing_ + (job_.pp - 1.0) * one / job_.virtual_stages;
    time_.bubble = std::max(0.0, seconds - computing_);
    time_.bubble_fraction = seconds > 0.0 ? time_.bubble / seconds : 0.0;
  }

  // Of one stage's output to the next rank.
  double hop_bytes() const {
    return job_.local_tokens() * job_.model.hidden * job_.compute_bytes / job_.sequence_parts();
  }
  double hop_seconds() const {
    const double stride = job_.world() / job_.pp;
    return hop_bytes() / times_.bandwidth(2.0, stride) * c(Constant::kPpExposed);
  }

  // Elements of this rank's parameters, before they are cut over the data-parallel ranks.
  LocalParameters largest_stage() const {
    LocalParameters sum;
    for (const LayerGroup& group : job_.model.layers) {
      const LocalParameters one = layer_parameters(job_, group.profile);
      sum.dense += one.dense * group.count / job_.pp;
      sum.experts += one.experts * group.count / job_.pp;
    }
    sum.dense += embedding_parameters(job_);
    if (job_.pp <= 1.0) sum.dense += head_parameters(job_);
    return sum;
  }

  void add_data_parallel(const std::vector<Passes>& groups) {
    const LocalParameters mine = largest_stage();
    const bool sharded = job_.sharding == Sharding::kParameters;
    const double ranks = (sharded ? job_.dp_shard : job_.dp()) * job_.cp;
    const double expert_ranks = std::max(1.0, ranks * job_.tp / (job_.ep * job_.expert_tp));
    const double grad = job_.reduce_bytes * job_.trained;
    const double gather = job_.compute_bytes;
    const double dense_bandwidth = times_.bandwidth(ranks, job_.tp);
    const double expert_bandwidth = times_.bandwidth(expert_ranks, job_.ep * job_.expert_tp);
    const double part = (ranks - 1.0) / ranks;
    const double expert_part = (expert_ranks - 1.0) / expert_ranks;
    const double cut = sharded ? 1.0 - job_.ignored : 1.0;
    const double dense = mine.dense * part * cut;
    const double experts = mine.experts * expert_part * cut;
    double step_bytes = 0.0;
    double seconds = 0.0;
    if (sharded) {
      const double gathers = job_.reshards ? 1.0 + job_.backward_layers : 1.0;
      const double one = (gathers * gather + (job_.defers_reduction ? 0.0 : grad));
      const double each = one * (dense / dense_bandwidth + experts / expert_bandwidth);
      const double work = computing_ / job_.micro_batches;
      const double hidden = c(Constant::kFsdpExposed);
      seconds = job_.micro_batches *
                (std::max(0.0, each - (1.0 - hidden) * work) + 0.5 * hidden * std::min(each, work));
      step_bytes = one * (dense + experts) * job_.micro_batches;
      if (job_.defers_reduction) {
        seconds += grad * (dense / dense_bandwidth + experts / expert_bandwidth);
        step_bytes += grad * (dense + experts);
      }
      // HSDP: the shards' gradients are summed over the replicas, once a step.
      const double replicas = job_.dp_replicate;
      const double shard =
          cut * (mine.dense / dense_shards(job_) + mine.experts / expert_shards(job_));
      const double summed = 2.0 * (replicas - 1.0) / replicas * grad * shard;
      seconds += summed / times_.bandwidth(replicas, job_.tp * ranks);
      step_bytes += summed;
      // What is whole is summed over all data-parallel ranks.
      const double all = job_.dp() * job_.cp;
      const double whole = 2.0 * (all - 1.0) / all * grad * job_.ignored *
                           (mine.dense + mine.experts) *
                           (job_.defers_reduction ? 1.0 : job_.micro_batches);
      seconds += whole / times_.bandwidth(all, job_.tp);
      step_bytes += whole;
    } else {
      // An all-reduce is a reduce-scatter and an all-gather of gradients; with the optimizer's
      // states cut, the gather is that of parameters.
      const double back = job_.sharding == Sharding::kReplicated ? grad : gather * job_.trained;
      step_bytes = (grad + back) * (dense + experts);
      const double all = (grad + back) * (dense / dense_bandwidth + experts / expert_bandwidth);
      double backward = 0.0;
      for (size_t i = 0; i < groups.size(); ++i) {
        backward += groups[i].backward.seconds() * job_.model.layers[i].count / job_.pp;
      }
      seconds = std::max(c(Constant::kDdpExposed) * all, all - 0.8 * backward);
    }
    time_.dp = job_.dp() * job_.cp > 1.0 || expert_ranks > 1.0 ? seconds : 0.0;
    add_bytes(step_bytes);
  }

  void add_bytes(double dp_bytes) {
    AxisBytes& bytes = time_.bytes;
    bytes.dp = dp_bytes;
    const double T = job_.local_tokens();
    // Forward, backward, and forward again.
    const double backward = job_.backward_layers * (job_.recompute == Recompute::kFull ? 2.0 : 1.0);
    for (const LayerGroup& group : job_.model.layers) {
      const double times = group.count / job_.pp * job_.micro_batches;
      bytes.tp += times * (1.0 + backward) * 4.0 * T * job_.model.hidden * job_.compute_bytes *
                  (job_.tp - 1.0) / job_.tp;
      bytes.cp += times * (1.0 + backward + job_.backward_layers) * (job_.cp - 1.0) * T *
                  times_.key_value_width(group.profile.attention) * job_.compute_bytes;
      if (group.profile.feed_forward.experts > 0) {
        bytes.ep += times * (1.0 + backward) * times_.expert_bytes(group.profile.feed_forward);
      }
    }
    if (job_.pp > 1.0) bytes.pp = 2.0 * job_.micro_batches * job_.virtual_stages * hop_bytes();
  }

  // Reads and writes of AdamW: parameter, gradient, two moments and a copy, float32.
  void add_optimizer() {
    constexpr double kBytes = 28.0;
    const LocalParameters mine = largest_stage();
    const double whole = mine.dense + mine.experts;
    const double shards = mine.dense / dense_shards(job_) + mine.experts / expert_shards(job_);
    const bool cut = job_.sharding != Sharding::kReplicated;
    const double held = cut ? job_.ignored * whole + (1.0 - job_.ignored) * shards : whole;
    time_.optimizer = kBytes * held * job_.trained / gpu_.memory_bandwidth;
  }

  void finish() {
    const double nodes = std::max(1.0, job_.world() / 8.0);
    const double slower = c(Constant::kJitter) * std::log2(nodes);
    double sum = computing_ + time_.bubble + time_.dp + time_.optimizer + time_.fixed;
    time_.fixed += sum * slower;
    time_.seconds = sum * (1.0 + slower);
  }

  const Workload& job_;
  const Gpu& gpu_;
  const CostConstants& c_;
  const PassTimes times_;
  double computing_ = 0;  // a rank's seconds without waiting, averaged over stages
  StepTime time_;
};

}  // namespace

schedule::PipelineShape pipeline_shape(const Workload& job) {
  return {.schedule = job.schedule,
          .pp = static_cast<int64_t>(job.pp),
          .virtual_stages = static_cast<int64_t>(job.virtual_stages),
          .microbatches = static_cast<int64_t>(job.micro_batches)};
}

StepTime estimate_step_time(const Workload& job, const Gpu& gpu, const CostConstants& constants,
                            const PipelineOrder* order) {
  return Model(job, gpu, constants).run([&](const std::vector<schedule::StageDurations>& stages) {
    return order != nullptr ? order->run(stages) : PipelineOrder(pipeline_shape(job)).run(stages);
  });
}

StepTime estimate_ideal_step_time(const Workload& job, const Gpu& gpu,
                                  const CostConstants& constants) {
  return Model(job, gpu, constants).run(nullptr);
}

}  // namespace am::planner
