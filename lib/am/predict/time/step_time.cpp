#include "am/predict/time/step_time.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "am/layout/quantization.h"
#include "am/predict/memory/peak_memory.h"
#include "am/predict/time/pass_time.h"

namespace am::predict {
namespace {

class Model {
 public:
  Model(const Workload& workload, const cluster::Gpu& gpu, const CostConstants& constants)
      : workload_(workload), gpu_(gpu), c_(constants), times_(workload, gpu, constants) {}

  // Function that returns the seconds of one run of the schedule, from the durations of the stages'
  // passes.
  using Pipeline = std::function<double(const std::vector<pipeline::StageDurations>&)>;

  StepTime run(const Pipeline& pipeline) {
    for (const LayerGroup& group : workload_.model.layers) {
      groups_.push_back(times_.layer(group.profile));
    }
    run_pipeline(pipeline);
    add_data_parallel();
    add_optimizer();
    add_messages();
    time_.fixed = c_[Constant::kStepSeconds] * times_.own_host();
    finish();
    return time_;
  }

 private:
  double c(Constant constant) const { return c_[constant]; }

  void run_pipeline(const Pipeline& simulate) {
    const auto& stages = workload_.layout.stages;
    const double hop = workload_.pp > 1.0 ? hop_seconds() : 0.0;
    const Passes head = times_.head();
    std::vector<pipeline::StageDurations> durations;
    Pass all;
    double waiting = 0.0;  // seconds that one micro-batch waits for copies of activations
    for (size_t stage = 0; stage < stages.size(); ++stage) {
      Pass forward, backward;
      for (size_t group = 0; group < groups_.size(); ++group) {
        const double through = workload_.layout.backward_layers;
        forward.add(groups_[group].forward, stages[stage].layers[group]);
        backward.add(groups_[group].backward, stages[stage].layers[group] * through);
        backward.add(groups_[group].again, stages[stage].checkpointed[group] * through);
      }
      if (stage + 1 == stages.size()) {
        forward.add(head.forward, 1.0);
        backward.add(head.backward, 1.0);
      }
      all.add(forward, 1.0);
      all.add(backward, 1.0);
      // Activations are copied to the host while forward runs, and back while backward runs.
      const double copies = offload_seconds(stages[stage]);
      const double after_forward = std::max(0.0, copies - forward.seconds());
      const double after_backward = std::max(0.0, copies - backward.seconds());
      waiting += after_forward + after_backward;
      const double half = (backward.seconds() + after_backward + hop) / 2.0;
      durations.push_back({forward.seconds() + after_forward + hop, half, half});
    }
    const double per_rank = workload_.micro_batches / workload_.pp;
    copying_ = waiting * per_rank;
    time_.products = all.products * per_rank;
    time_.attention = all.attention * per_rank;
    time_.memory_bound = all.memory_bound * per_rank;
    time_.launching = all.launching * per_rank;
    time_.tp = all.tp * per_rank;
    time_.cp = all.cp * per_rank;
    time_.ep = all.ep * per_rank;
    time_.pp = 2.0 * hop * static_cast<double>(stages.size()) * per_rank;
    computing_ = all.seconds() * per_rank + time_.pp + copying_;
    if (workload_.pp <= 1.0) return;
    const double seconds = workload_.rounds * simulate(durations);
    time_.bubble = std::max(0.0, seconds - computing_);
    time_.bubble_fraction = seconds > 0.0 ? time_.bubble / seconds : 0.0;
  }

  // Returns the seconds in which the offloaded activations of one micro-batch are copied from a
  // stage to the host.
  double offload_seconds(const StageSummary& stage) const {
    const double fraction = workload_.megatron.offloaded_activations;
    if (fraction == 0.0) return 0.0;
    return fraction * stage_activation_bytes(workload_, stage) / host_bandwidth();
  }

  // Returns the bytes of a message from one stage to the next.
  double hop_bytes() const {
    return workload_.local_tokens() * workload_.model.hidden * workload_.compute_bytes /
           workload_.sequence_parts();
  }
  double hop_seconds() const {
    const double stride = workload_.world() / workload_.pp;
    return hop_bytes() / times_.bandwidth(2.0, stride) * c(Constant::kPpExposed);
  }

  // Data-parallel communication of one rank at the index along pp that has the most parameters. In
  // the functions below, `each` is the number of bytes that is gathered or reduced per parameter
  // element.
  struct Sent {
    double bytes = 0, seconds = 0;

    void add(const Sent& other, double times) {
      bytes += other.bytes * times;
      seconds += other.seconds * times;
    }
  };
  Sent over(double ranks, double stride, double bytes) const {
    if (ranks <= 1.0) return {};
    const double sent = bytes * (ranks - 1.0) / ranks;
    return {sent, sent / times_.bandwidth(ranks, stride)};
  }
  Sent gathered(double each) const {
    const bool sharded =
        workload_.sharding == Sharding::kParameters || workload_.megatron.own_groups;
    const auto of = [&](double numel, const ShardGroup& group) {
      return over(sharded ? group.shards : group.ranks(), group.stride, numel * cut_ * each);
    };
    Sent sum = of(mine_.dense, workload_.layout.dense);
    sum.add(of(mine_.experts, workload_.layout.experts), 1.0);
    return sum;
  }
  // Returns the communication that sums the gradients of each shard over its replicas: the replicas
  // of HSDP, or the instances of Megatron's distributed optimizer.
  Sent summed_over_replicas(double each) const {
    const auto of = [&](double numel, const ShardGroup& group) {
      return over(group.replicas, group.stride * group.shards,
                  2.0 * each * cut_ * numel / group.shards);
    };
    Sent sum = of(mine_.dense, workload_.layout.dense);
    sum.add(of(mine_.experts, workload_.layout.experts), 1.0);
    return sum;
  }

  void add_data_parallel() {
    mine_ = workload_.layout.parameters_of(workload_.layout.fullest_position());
    const double grad = workload_.reduce_bytes * workload_.layout.trained;
    const double reductions = workload_.defers_reduction ? 1.0 : workload_.micro_batches;
    Sent sent;
    if (workload_.sharding == Sharding::kParameters) {
      cut_ = 1.0 - workload_.layout.ignored;
      sent = gather_and_reduce(grad);
      sent.add(summed_over_replicas(grad), 1.0);  // replicas communicate once per step
      // The gradients of parameters that FSDP ignores are summed over all dp and cp ranks.
      sent.add(over(workload_.dp() * workload_.cp, workload_.tp,
                    2.0 * grad * workload_.layout.ignored * mine_.total()),
               reductions);
    } else {
      sent = reduce_whole(grad, workload_.sharding == Sharding::kGradients ? reductions : 1.0);
    }
    time_.dp = sent.seconds;
    time_.bytes.dp = sent.bytes;
  }

  // Returns the communication of FSDP. FSDP gathers units for forward and again for backward of
  // every micro-batch. If units stay gathered, FSDP gathers them once per micro-batch or, in a
  // pipeline, once per round. Communication overlaps with the computation of other units. `grad`:
  // bytes that a reduction moves per parameter element.
  Sent gather_and_reduce(double grad) {
    const double gathers = workload_.reshards ? 1.0 + workload_.layout.backward_layers : 1.0;
    const double reduced = workload_.defers_reduction ? 0.0 : 1.0;
    const double often = workload_.reshards || workload_.pp == 1.0
                             ? 1.0
                             : workload_.rounds / workload_.micro_batches;
    const double quantized = workload_.layout.quantized;
    const double stored = quantized * layout::kNf4Bytes;
    add_dequantizing(often * gathers * quantized);
    const Sent each = gathered(
        often * gathers * ((1.0 - quantized) * workload_.compute_bytes + stored) + reduced * grad);
    Sent sent;
    sent.add(each, workload_.micro_batches);
    sent.seconds = workload_.micro_batches * exposed(each.seconds);
    if (workload_.defers_reduction) sent.add(gathered(grad), 1.0);
    if (!workload_.offloads) return sent;
    // Parameter shards are copied from the host before each gather, and reduced gradients are
    // copied to the host.
    const double moved = held() * workload_.storage_bytes;
    const double copied = held() * ((1.0 - quantized) * workload_.storage_bytes + stored);
    const double copies =
        (copied * often * gathers + moved * reduced * workload_.layout.trained) / host_bandwidth();
    time_.offload =
        workload_.micro_batches *
        (workload_.pins_memory ? exposed(each.seconds + copies) - exposed(each.seconds) : copies);
    if (workload_.defers_reduction) {
      time_.offload += moved * workload_.layout.trained / host_bandwidth();
    }
    return sent;
  }

  // Adds the time in which gathered parameters are dequantized (tensor/nf4.cpp). `share`: number of
  // gathers in a micro-batch, times the fraction of all parameters that is quantized.
  void add_dequantizing(double share) {
    constexpr double kMoved = 20.0;  // bytes per value that all kernels together read and write
    const double moved = kMoved * share * mine_.total() * workload_.micro_batches;
    time_.memory_bound += moved / gpu_.memory_bandwidth;
    computing_ += moved / gpu_.memory_bandwidth;
  }

  // Returns the seconds of one micro-batch's communication that do not overlap with computation.
  // `seconds`: duration of the communication alone.
  double exposed(double seconds) const {
    const double work = computing_ / workload_.micro_batches;
    const double share = c(Constant::kFsdpExposed);
    return std::max(0.0, seconds - (1.0 - share) * work) + 0.5 * share * std::min(seconds, work);
  }

  // Returns the communication of strategies that keep complete parameters on each rank. An
  // all-reduce of gradients counts as a reduce-scatter and an all-gather of gradients. If optimizer
  // states are sharded, the all-gather collects the updated parameters instead. `grad`: bytes that
  // a reduction moves per parameter element. `reductions`: number of reductions per step.
  Sent reduce_whole(double grad, double reductions) const {
    const double back = workload_.sharding == Sharding::kReplicated
                            ? grad
                            : workload_.compute_bytes * workload_.layout.trained;
    Sent sent = gathered(grad * reductions + back);
    Sent replicas;
    if (workload_.megatron.own_groups) replicas = summed_over_replicas(grad);
    sent.add(replicas, 1.0);
    double alone = 0.0;  // seconds of communication that nothing overlaps
    const MegatronStep& own = workload_.megatron;
    if (!own.overlaps_reduction) alone += gathered(grad * reductions).seconds + replicas.seconds;
    if (!own.overlaps_gather) alone += gathered(back).seconds;
    double backward = 0.0;
    for (size_t i = 0; i < groups_.size(); ++i) {
      const LayerGroup& group = workload_.model.layers[i];
      backward += (groups_[i].backward.seconds() * group.count +
                   groups_[i].again.seconds() * checkpointed(i)) /
                  workload_.pp;
    }
    const double other = sent.seconds - alone;
    sent.seconds = alone + std::max(c(Constant::kDdpExposed) * other, other - 0.8 * backward);
    return sent;
  }

  // Returns the number of checkpointed layers of one kind, summed over all stages.
  double checkpointed(size_t group) const {
    double count = 0.0;
    for (const StageSummary& stage : workload_.layout.stages) count += stage.checkpointed[group];
    return count;
  }

  // Returns the number of parameter elements whose optimizer states this rank has if all parameters
  // are trained.
  double held() const {
    const LayoutSummary& layout = workload_.layout;
    return cut_ * (mine_.dense / state_shards(workload_, layout.dense) +
                   mine_.experts / state_shards(workload_, layout.experts)) +
           (1.0 - cut_) * mine_.total();
  }

  double host_bandwidth() const {
    constexpr double kShare = 0.8;  // fraction of the link's bandwidth that large copies reach
    return kShare * gpu_.host_bandwidth;
  }

  // Sets the bytes sent over tp, cp, ep and pp. For each of tp, cp and ep, the number is the
  // largest of all pipeline ranks; the three numbers may come from different pipeline ranks.
  void add_messages() {
    const auto positions = static_cast<size_t>(workload_.layout.positions());
    std::vector<AxisBytes> sent(positions);
    for (const StageSummary& stage : workload_.layout.stages) {
      AxisBytes& bytes = sent[static_cast<size_t>(stage.owner)];
      for (size_t group = 0; group < groups_.size(); ++group) {
        add_layers(group, stage.layers[group], stage.checkpointed[group], bytes);
      }
    }
    for (const AxisBytes& bytes : sent) {
      time_.bytes.tp = std::max(time_.bytes.tp, bytes.tp);
      time_.bytes.cp = std::max(time_.bytes.cp, bytes.cp);
      time_.bytes.ep = std::max(time_.bytes.ep, bytes.ep);
    }
    if (workload_.pp > 1.0) {
      time_.bytes.pp = 2.0 * workload_.micro_batches * workload_.virtual_stages * hop_bytes();
    }
  }

  void add_layers(size_t group, double layers, double checkpointed_layers, AxisBytes& bytes) const {
    const model::FeedForwardProfile& feed_forward =
        workload_.model.layers[group].profile.feed_forward;
    const double T = workload_.local_tokens();
    const double through = workload_.layout.backward_layers;
    const Repeated again = repeated_by(workload_, feed_forward);
    // Returns the number of forwards of one layer that send as many bytes as all passes of a step.
    // A backward counts as `backward` forwards, a recomputation as `repeated` forwards.
    const auto passes = [&](double backward, double repeated) {
      return workload_.micro_batches *
             (layers * (1.0 + through * backward) + checkpointed_layers * through * repeated);
    };
    bytes.tp += passes(1.0, 0.5 * (again.attention + again.feed_forward)) * 4.0 * T *
                workload_.model.hidden * workload_.product_bytes * (workload_.tp - 1.0) /
                workload_.tp;
    if (workload_.cp > 1.0) {
      const layout::ContextBytes& context = groups_[group].context;
      bytes.cp += workload_.micro_batches *
                  (layers * (context.forward + through * context.backward) +
                   checkpointed_layers * through * again.attention * context.forward);
    }
    if (feed_forward.experts > 0) {
      bytes.ep += passes(1.0, again.feed_forward) * times_.expert_bytes(feed_forward);
    }
  }

  // Sets the time of the optimizer's update: the bytes of float32 parameters, gradients and states
  // that the update reads and writes, divided by the memory bandwidth. Muon's matmuls are not
  // counted. With offloading the update runs on the host, where a rank's share of the memory
  // bandwidth is about the bandwidth of its GPU's link to the host.
  void add_optimizer() {
    const double bandwidth = workload_.offloads ? host_bandwidth() : gpu_.memory_bandwidth;
    const double bytes = 12.0 + 8.0 * workload_.states;
    time_.optimizer = bytes * held() * workload_.layout.trained / bandwidth;
  }

  void finish() {
    const double ranks_per_node =
        workload_.ranks_per_node > 0.0 ? workload_.ranks_per_node : gpu_.gpus_per_node;
    const double nodes = std::max(1.0, workload_.world() / ranks_per_node);
    const double slower = c(Constant::kJitter) * std::log2(nodes);
    double sum =
        computing_ + time_.bubble + time_.dp + time_.offload + time_.optimizer + time_.fixed;
    time_.offload += copying_;  // `sum` contains it in computing_
    time_.fixed += sum * slower;
    time_.seconds = sum * (1.0 + slower);
  }

  const Workload& workload_;
  const cluster::Gpu& gpu_;
  const CostConstants& c_;
  const PassTimes times_;
  std::vector<Passes> groups_;  // times of one layer, [kind of layer]
  // Parameters of a rank, before data parallelism shards them, at the index along pp that has the
  // most parameters.
  LocalParameters mine_;
  double cut_ = 1.0;  // fraction of mine_ that FSDP does not ignore; 1 without FSDP
  // Seconds per step of passes, messages between stages and copying_, averaged over the pp ranks.
  double computing_ = 0;
  double copying_ = 0;  // exposed copies of offloaded activations, averaged over the pp ranks
  StepTime time_;
};

}  // namespace

pipeline::PipelineShape pipeline_shape(const Workload& workload) {
  return {.schedule = workload.schedule,
          .pp = static_cast<int64_t>(workload.pp),
          .virtual_stages = static_cast<int64_t>(workload.virtual_stages),
          .microbatches = static_cast<int64_t>(workload.micro_batches / workload.rounds),
          .may_stay_partly_full = workload.megatron.may_stay_partly_full,
          .own = workload.custom_schedule};
}

StepTime estimate_step_time(const Workload& workload, const cluster::Gpu& gpu,
                            const CostConstants& constants, const PipelineOrder* order) {
  return Model(workload, gpu, constants)
      .run([&](const std::vector<pipeline::StageDurations>& stages) {
        const auto time = order != nullptr ? order->run(stages)
                                           : PipelineOrder(pipeline_shape(workload)).run(stages);
        return time.seconds;
      });
}

StepTime least_step_time(const Workload& workload, const cluster::Gpu& gpu,
                         const CostConstants& constants) {
  return Model(workload, gpu, constants)
      .run([&](const std::vector<pipeline::StageDurations>& stages) {
        return least_seconds(pipeline_shape(workload), stages);
      });
}

}  // namespace am::predict
