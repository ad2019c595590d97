#include "am/planner/cost/step_time.h"

#include <algorithm>
#include <cmath>
#include <functional>

namespace am::planner {
namespace {

// The larger of the two, but smooth where they are alike: launches overlap with long kernels.
double at_least(double value, double floor) {
  return std::sqrt(std::sqrt(value * value * value * value + floor * floor * floor * floor));
}

// Seconds of one pass through a layer, or through the head.
struct Pass {
  double products = 0, attention = 0, memory_bound = 0, launching = 0;
  double tp = 0, cp = 0, ep = 0;

  double seconds() const { return products + attention + memory_bound + launching + tp + cp + ep; }
  void add(const Pass& other, double times) {
    products += other.products * times;
    attention += other.attention * times;
    memory_bound += other.memory_bound * times;
    launching += other.launching * times;
    tp += other.tp * times;
    cp += other.cp * times;
    ep += other.ep * times;
  }
};

struct Passes {
  Pass forward, backward;
};

class Model {
 public:
  Model(const Workload& job, const Gpu& gpu, const CostConstants& constants)
      : job_(job),
        gpu_(gpu),
        c_(constants),
        own_(constants.of(job.implementation->name)),
        own_host_(own_.host * constants.at(job.site)) {
    set_rates();
    set_links();
  }

  // Null: no simulation.
  using Pipeline = std::function<PipelineTime(const std::vector<schedule::StageDurations>&)>;

  StepTime run(const Pipeline& pipeline) {
    std::vector<Passes> groups;
    for (const LayerGroup& group : job_.model.layers) groups.push_back(layer(group.profile));
    const Passes head = this->head();
    run_pipeline(groups, head, pipeline);
    add_data_parallel(groups);
    add_optimizer();
    time_.fixed = c_[Constant::kStepSeconds] * own_host_;
    finish();
    return time_;
  }

 private:
  double c(Constant constant) const { return c_[constant]; }

  // ---- rates and links -------------------------------------------------------------------------

  void set_rates() {
    const GpuGeneration generation = gpu_.generation();
    const bool blackwell = generation == GpuGeneration::kBlackwell;
    const bool hopper = generation == GpuGeneration::kHopper;
    const double share = c(blackwell ? Constant::kGemmBlackwell
                           : hopper  ? Constant::kGemmHopper
                                     : Constant::kGemmAmpere);
    bf16_rate_ = share * gpu_.bf16_flops;
    rate_ = bf16_rate_;
    if (job_.format == ComputeFormat::kFp32 && gpu_.fp32_flops > 0.0) {
      rate_ = bf16_rate_ = share * gpu_.fp32_flops;
    } else if (job_.format == ComputeFormat::kFp4 && gpu_.fp4_flops > 0.0) {
      rate_ = c(Constant::kGemmBlackwellFp4) * gpu_.fp4_flops;
    } else if (job_.format >= ComputeFormat::kFp8 && gpu_.fp8_flops > 0.0) {
      rate_ =
          c(blackwell ? Constant::kGemmBlackwellFp8 : Constant::kGemmHopperFp8) * gpu_.fp8_flops;
    }
    attention_rate_ =
        bf16_rate_ * c(blackwell ? Constant::kAttentionBlackwell : Constant::kAttention);
    host_ = blackwell ? c(Constant::kLaunchBlackwell) : hopper ? c(Constant::kLaunchHopper) : 1.0;
    traffic_ = job_.compute_bytes / gpu_.memory_bandwidth;
    if (job_.format == ComputeFormat::kFp8 || job_.format == ComputeFormat::kFp4) {
      traffic_ *= c(Constant::kNarrowTraffic);
    }
    if (job_.implementation->eager) traffic_ *= c(Constant::kEagerTraffic);
  }

  void set_links() {
    const bool ampere = gpu_.generation() == GpuGeneration::kAmpere;
    link_ = c(ampere ? Constant::kLinkAmpere : Constant::kLink) * gpu_.link_bandwidth;
    network_ = c(Constant::kNetwork) * gpu_.nic_bandwidth;
  }

  // Bytes a second of a collective among `ranks` ranks that stand `stride` apart.
  double bandwidth(double ranks, double stride) const {
    const double domain = std::max(1.0, gpu_.link_domain);
    if (ranks * stride <= domain) return link_;
    const double in_domain =
        std::max(1.0, std::min(ranks, std::min(domain, job_.world()) / stride));
    return std::min(link_, network_ * in_domain);
  }

  // ---- one layer -------------------------------------------------------------------------------

  // A product of [tokens, in] by [in, out], forward.
  double product(double tokens, double in, double out, double rate, double half_tokens) const {
    if (tokens <= 0.0 || in <= 0.0 || out <= 0.0) return 0.0;
    const double slow =
        1.0 + half_tokens / tokens + c(Constant::kHalfOutput) / out + c(Constant::kHalfInput) / in;
    const double shape = is_aligned(in) && is_aligned(out) ? 1.0 : c(Constant::kMisaligned);
    return 2.0 * tokens * in * out / rate * slow * shape * own_.compute;
  }
  double product(double tokens, double in, double out) const {
    return product(tokens, in, out, rate_, c(Constant::kHalfTokens));
  }

  static bool is_aligned(double width) { return std::fmod(width, 64.0) == 0.0; }

  double projections(const model::AttentionProfile& a) const {
    const double T = job_.local_tokens();
    const double h = job_.model.hidden;
    const double tp = job_.tp;
    const auto n = static_cast<double>(a.heads);
    const auto qk = static_cast<double>(a.qk_head_dim);
    const auto v = static_cast<double>(a.v_head_dim);
    const double out = product(T, n * v / tp, h);
    if (a.kv_lora_rank == 0) {
      const auto k = static_cast<double>(a.key_value_heads);
      return product(T, h, (n * qk + k * (qk + v)) / tp) + out;
    }
    const auto q_rank = static_cast<double>(a.q_lora_rank);
    const auto kv_rank = static_cast<double>(a.kv_lora_rank);
    const auto rope = static_cast<double>(a.rope_head_dim);
    const double queries = q_rank > 0.0 ? product(T, h, q_rank) + product(T, q_rank, n * qk / tp)
                                        : product(T, h, n * qk / tp);
    return queries + product(T, h, kv_rank + rope) + product(T, kv_rank, n * (qk - rope + v) / tp) +
           out;
  }

  // Scores and their product with the values, forward.
  double attention(const model::AttentionProfile& a) const {
    const double T = job_.local_tokens();
    const double S = job_.sequence;
    const double heads = static_cast<double>(a.heads) / job_.tp;
    const double width = static_cast<double>(a.qk_head_dim + a.v_head_dim);
    if (job_.unfused_attention) {
      const double scores = T * S * heads;
      return (2.0 * scores * width / attention_rate_ +
              c(Constant::kUnfusedBytes) * scores / gpu_.memory_bandwidth) *
             own_.compute;
    }
    const double seen = a.window ? std::min(static_cast<double>(*a.window), S / 2.0) : S / 2.0;
    return 2.0 * T * seen * heads * width / attention_rate_ * own_.compute;
  }

  // Tokens that this rank's experts take, all of them together, when experts are taken evenly.
  double expert_tokens(const model::FeedForwardProfile& f) const {
    return job_.local_tokens() * static_cast<double>(f.experts_per_token) / job_.sequence_parts() *
           (job_.sequence_parallel ? job_.expert_tp : 1.0);
  }

  void add_feed_forward(const model::FeedForwardProfile& f, Pass& pass) const {
    const double T = job_.local_tokens();
    const double h = job_.model.hidden;
    const double matrices = f.gated ? 2.0 : 1.0;
    const double wide = c(Constant::kMlpTraffic) * traffic_ * own_.compute;
    for (const int64_t width : {f.dense_width, f.shared_width}) {
      if (width == 0) continue;
      const double F = static_cast<double>(width) / job_.tp;
      pass.products += product(T, h, matrices * F) + product(T, F, h);
      pass.memory_bound += wide * T * F;
    }
    if (f.experts == 0) return;
    const double F = static_cast<double>(f.expert_width) / job_.expert_tp;
    const double mine = expert_tokens(f);
    const double each = job_.local_tokens() * job_.ep * static_cast<double>(f.experts_per_token) /
                        static_cast<double>(f.experts);
    const double slow = 1.0 + c(Constant::kHalfExpertTokens) / std::max(each, 1.0) +
                        c(Constant::kHalfOutput) / std::max(F, 1.0);
    pass.products += 2.0 * mine * (matrices + 1.0) * h * F / rate_ * slow * own_.compute;
    pass.memory_bound += wide * mine * (F + 2.0 * h);  // sorted to experts and back
  }

  double launch_floor(bool experts) const {
    double floor = c(job_.implementation->old_launch ? Constant::kLaunchOld : Constant::kLaunch);
    if (experts) floor += c(Constant::kLaunchExperts);
    return floor * host_ * own_host_;
  }

  Passes layer(const model::LayerProfile& profile) {
    const double T = job_.local_tokens();
    const double h = job_.model.hidden;
    Pass forward;
    forward.products = projections(profile.attention);
    forward.attention = attention(profile.attention);
    forward.memory_bound = c(Constant::kHiddenTraffic) * T * h * traffic_ * own_.compute *
                           (0.5 / job_.sequence_parts() + 0.5 / job_.tp);
    add_feed_forward(profile.feed_forward, forward);

    Passes passes{forward, {}};
    // As much for the gradients of inputs as for those of weights that train.
    const double trained = std::min(1.0, job_.trained / std::max(job_.backward_layers, 1e-9));
    passes.backward.products = (1.0 + trained) * forward.products;
    passes.backward.attention = (job_.unfused_attention ? 2.0 : 2.5) * forward.attention;
    passes.backward.memory_bound = 2.0 * forward.memory_bound;
    const double floor = launch_floor(profile.feed_forward.experts > 0);
    for (Pass* pass : {&passes.forward, &passes.backward}) {
      const double work = pass->products + pass->attention + pass->memory_bound;
      pass->launching = at_least(work, pass == &passes.forward ? floor : 2.0 * floor) - work;
    }
    add_communication(profile, passes);
    const double repeated = job_.recompute == Recompute::kFull        ? 1.0
                            : job_.recompute == Recompute::kAlternate ? 0.5
                                                                      : 0.0;
    if (repeated > 0.0) passes.backward.add(passes.forward, repeated);
    if (job_.recompute == Recompute::kSelective) {
      // Every second product's output is kept; what lies between them is computed again.
      passes.backward.products += 0.5 * forward.products;
      passes.backward.memory_bound += forward.memory_bound;
    }
    return passes;
  }

  void add_communication(const model::LayerProfile& profile, Passes& passes) {
    const double T = job_.local_tokens();
    const double h = job_.model.hidden;
    const double bytes = job_.compute_bytes;
    if (job_.tp > 1.0) {
      const double sent = 2.0 * 2.0 * T * h * bytes * (job_.tp - 1.0) / job_.tp;
      const double waiting = 2.0 * c(Constant::kTpLatency) * std::log2(job_.tp);
      const double exposed = job_.implementation->overlaps_tp ? c(Constant::kTpExposed) : 1.0;
      const double seconds = (sent / bandwidth(job_.tp, 1.0) + waiting) * exposed;
      passes.forward.tp += seconds;
      passes.backward.tp += seconds;
    }
    if (job_.cp > 1.0) {
      const double sent = (job_.cp - 1.0) * T * key_value_width(profile.attention) * bytes;
      const double seconds = sent / bandwidth(job_.cp, job_.tp) * c(Constant::kCpExposed);
      passes.forward.cp += seconds;
      passes.backward.cp += 2.0 * seconds;
    }
    if (job_.ep > 1.0 && profile.feed_forward.experts > 0) {
      const double sent = expert_bytes(profile.feed_forward);
      const double outside = job_.ep <= gpu_.link_domain ? 0.0 : 1.0 - gpu_.link_domain / job_.ep;
      const double seconds =
          sent * ((1.0 - outside) / link_ + outside / network_) * c(Constant::kEpExposed);
      passes.forward.ep += seconds;
      passes.backward.ep += seconds;
    }
  }

  // Keys and values of one token on one rank.
  double key_value_width(const model::AttentionProfile& a) const {
    return static_cast<double>(a.key_value_heads * (a.qk_head_dim + a.v_head_dim)) / job_.tp;
  }
  // Tokens to their experts and back, once each.
  double expert_bytes(const model::FeedForwardProfile& f) const {
    return 2.0 * expert_tokens(f) * job_.model.hidden * job_.compute_bytes * (job_.ep - 1.0) /
           job_.ep;
  }

  // Logits and the loss.
  Passes head() const {
    const double T = job_.local_tokens();
    const double words = job_.model.vocabulary / job_.tp;
    Passes passes;
    passes.forward.products =
        product(T, job_.model.hidden, words, bf16_rate_, c(Constant::kHalfTokens));
    passes.backward.products = 2.0 * passes.forward.products;
    constexpr double kLogitBytes = 10.0;  // read and written, forward and as much backward
    passes.forward.memory_bound = kLogitBytes * T * words / gpu_.memory_bandwidth * own_.compute;
    passes.backward.memory_bound = passes.forward.memory_bound;
    return passes;
  }

  // ---- the step --------------------------------------------------------------------------------

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
    return hop_bytes() / bandwidth(2.0, stride) * c(Constant::kPpExposed);
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
    const double dense_bandwidth = bandwidth(ranks, job_.tp);
    const double expert_bandwidth = bandwidth(expert_ranks, job_.ep * job_.expert_tp);
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
      seconds += summed / bandwidth(replicas, job_.tp * ranks);
      step_bytes += summed;
      // What is whole is summed over all data-parallel ranks.
      const double all = job_.dp() * job_.cp;
      const double whole = 2.0 * (all - 1.0) / all * grad * job_.ignored *
                           (mine.dense + mine.experts) *
                           (job_.defers_reduction ? 1.0 : job_.micro_batches);
      seconds += whole / bandwidth(all, job_.tp);
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
                  key_value_width(group.profile.attention) * job_.compute_bytes;
      if (group.profile.feed_forward.experts > 0) {
        bytes.ep += times * (1.0 + backward) * expert_bytes(group.profile.feed_forward);
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
  const ImplementationFactors own_;
  const double own_host_;
  double rate_ = 0, bf16_rate_ = 0, attention_rate_ = 0;  // operations a second
  double traffic_ = 0;  // seconds an element of memory-bound operators
  double host_ = 1;
  double link_ = 0, network_ = 0;  // bytes a second
  double computing_ = 0;           // a rank's seconds without waiting, averaged over stages
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
