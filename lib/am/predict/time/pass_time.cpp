#include "am/predict/time/pass_time.h"

#include <algorithm>
#include <cmath>

namespace am::predict {
namespace {

// Returns a smooth maximum, (value^4 + floor^4)^(1/4), of the seconds of kernels, `value`, and the
// seconds of launching them, `floor`. Kernels and launches overlap, so the longer time determines
// the duration.
double at_least(double value, double floor) {
  return std::sqrt(std::sqrt(value * value * value * value + floor * floor * floor * floor));
}

// Sets pass.launching: the seconds by which kernel launches make the pass longer than its
// computation. `floor`: seconds in which the host launches the kernels of the pass.
void add_launching(double floor, Pass& pass) {
  const double work = pass.products + pass.attention + pass.memory_bound;
  pass.launching = at_least(work, floor) - work;
}

// Returns the watts per peak FLOP/s of a GPU, divided by those of a B200 SXM; 1 if the GPU's power
// limit is not known.
double relative_power(const cluster::Gpu& gpu) {
  constexpr double kOfB200 = 1000.0 / 2250e12;
  return gpu.watts > 0.0 ? gpu.watts / gpu.bf16_flops / kOfB200 : 1.0;
}

bool is_aligned(double width) { return std::fmod(width, 64.0) == 0.0; }

}  // namespace

Repeated repeated_by(const Workload& workload, const model::FeedForwardProfile& feed_forward) {
  switch (workload.recompute) {
    case config::ActivationCheckpointing::kFull:
      return {.attention = 1.0, .feed_forward = 1.0};
    case config::ActivationCheckpointing::kMlp:
      return {.attention = 0.0, .feed_forward = 1.0};
    case config::ActivationCheckpointing::kSelective: {
      // torchtitan's selective checkpointing repeats some operators, but none that communicates, so
      // nothing counts as repeated.
      if (!workload.megatron.recomputed) break;
      const config::RecomputedModules& modules = *workload.megatron.recomputed;
      const bool repeats = feed_forward.experts > 0 ? modules.moe : modules.mlp;
      return {.attention = 0.0, .feed_forward = repeats ? 1.0 : 0.0};
    }
    case config::ActivationCheckpointing::kOff:
      break;
  }
  return {};
}

PassTimes::PassTimes(const Workload& workload, const cluster::Gpu& gpu,
                     const CostConstants& constants)
    : workload_(workload),
      gpu_(gpu),
      c_(constants),
      own_(constants.of(workload.implementation->name)),
      own_host_(own_.host * constants.at(workload.site)) {
  set_rates();
  set_links();
}

// ---- rates and links -------------------------------------------------------------------------

void PassTimes::set_rates() {
  const cluster::GpuGeneration generation = gpu_.generation();
  const bool blackwell = generation == cluster::GpuGeneration::kBlackwell;
  const bool hopper = generation == cluster::GpuGeneration::kHopper;
  const double share = c(blackwell ? Constant::kGemmBlackwell
                         : hopper  ? Constant::kGemmHopper
                                   : Constant::kGemmAmpere);
  bf16_rate_ = share * gpu_.bf16_flops;
  rate_ = bf16_rate_;
  if (workload_.format == ComputeFormat::kFp32 && gpu_.fp32_flops > 0.0) {
    rate_ = bf16_rate_ = share * gpu_.fp32_flops;
  } else if (workload_.format == ComputeFormat::kFp4 && gpu_.fp4_flops > 0.0) {
    rate_ = c(Constant::kGemmBlackwellFp4) * gpu_.fp4_flops;
  } else if (workload_.format >= ComputeFormat::kFp8 && gpu_.fp8_flops > 0.0) {
    rate_ = c(blackwell ? Constant::kGemmBlackwellFp8 : Constant::kGemmHopperFp8) * gpu_.fp8_flops;
  }
  if (blackwell) {
    const double power = std::pow(relative_power(gpu_), c(Constant::kPowerBlackwell));
    rate_ *= power;
    bf16_rate_ *= power;
  }
  attention_rate_ =
      bf16_rate_ * c(blackwell ? Constant::kAttentionBlackwell : Constant::kAttention);
  host_ = blackwell ? c(Constant::kLaunchBlackwell) : hopper ? c(Constant::kLaunchHopper) : 1.0;
  traffic_ = workload_.compute_bytes / gpu_.memory_bandwidth;
  if (workload_.format == ComputeFormat::kFp8 || workload_.format == ComputeFormat::kFp4) {
    traffic_ *= c(Constant::kNarrowTraffic);
  }
  if (workload_.implementation->eager) traffic_ *= c(Constant::kEagerTraffic);
  const GpuFactors& factors = c_.of_gpu(gpu_.name);
  for (double* rate : {&rate_, &bf16_rate_, &attention_rate_}) *rate /= factors.compute;
  traffic_ *= factors.compute;
  host_ *= factors.host;
}

void PassTimes::set_links() {
  const bool ampere = gpu_.generation() == cluster::GpuGeneration::kAmpere;
  link_ = c(ampere ? Constant::kLinkAmpere : Constant::kLink) * gpu_.link_bandwidth;
  network_ = c(Constant::kNetwork) * gpu_.nic_bandwidth;
  const double links = c_.of_gpu(gpu_.name).links;
  link_ /= links;
  network_ /= links;
  // If a job uses only a fraction of each node's GPUs, it is assumed to use the same fraction of
  // each link domain.
  const double used =
      workload_.ranks_per_node > 0.0 ? workload_.ranks_per_node / gpu_.gpus_per_node : 1.0;
  domain_ = std::max(1.0, gpu_.link_domain * std::min(1.0, used));
}

double PassTimes::bandwidth(double ranks, double stride) const {
  if (ranks * stride <= domain_) return link_;
  const double in_domain =
      std::max(1.0, std::min(ranks, std::min(domain_, workload_.world()) / stride));
  return std::min(link_, network_ * in_domain);
}

// ---- one layer -------------------------------------------------------------------------------

// Returns the seconds of the matmul [tokens, in] x [in, out] in forward. `rate`: FLOP/s of large
// matmuls. `half_tokens`: number of tokens at which a matmul with wide weights reaches half of
// `rate`.
double PassTimes::product(double tokens, double in, double out, double rate,
                          double half_tokens) const {
  if (tokens <= 0.0 || in <= 0.0 || out <= 0.0) return 0.0;
  const double slow =
      1.0 + half_tokens / tokens + c(Constant::kHalfOutput) / out + c(Constant::kHalfInput) / in;
  const double shape = is_aligned(in) && is_aligned(out) ? 1.0 : c(Constant::kMisaligned);
  return 2.0 * tokens * in * out / rate * slow * shape * own_.compute;
}

double PassTimes::product(double tokens, double in, double out) const {
  return product(tokens, in, out, rate_, c(Constant::kHalfTokens));
}

double PassTimes::projections(const model::AttentionProfile& a) const {
  const double T = workload_.local_tokens();
  const double h = workload_.model.hidden;
  const double tp = workload_.tp;
  const auto n = static_cast<double>(a.heads);
  const auto qk = static_cast<double>(a.qk_head_dim);
  const auto v = static_cast<double>(a.v_head_dim);
  const double out = product(T, n * v / tp, h);
  if (a.kv_lora_rank == 0) {
    const auto k = static_cast<double>(a.key_value_heads);
    const double gate = a.gated ? n * v : 0.0;
    return product(T, h, (n * qk + k * (qk + v) + gate) / tp) + out;
  }
  const auto q_rank = static_cast<double>(a.q_lora_rank);
  const auto kv_rank = static_cast<double>(a.kv_lora_rank);
  const auto rope = static_cast<double>(a.rope_head_dim);
  const double queries = q_rank > 0.0 ? product(T, h, q_rank) + product(T, q_rank, n * qk / tp)
                                      : product(T, h, n * qk / tp);
  return queries + product(T, h, kv_rank + rope) + product(T, kv_rank, n * (qk - rope + v) / tp) +
         out;
}

// Returns the seconds of MLA's projections from the latents to heads in forward.
double PassTimes::heads_of_latents(const model::AttentionProfile& a) const {
  const double T = workload_.local_tokens();
  const double heads = static_cast<double>(a.heads) / workload_.tp;
  const auto q_rank = static_cast<double>(a.q_lora_rank);
  const auto kv_rank = static_cast<double>(a.kv_lora_rank);
  const auto qk = static_cast<double>(a.qk_head_dim);
  const auto kv = static_cast<double>(a.qk_head_dim - a.rope_head_dim + a.v_head_dim);
  return product(T, q_rank, heads * qk) + product(T, kv_rank, heads * kv);
}

// Returns the seconds of attention's scores, and of their product with the values, in forward.
double PassTimes::attention(const model::AttentionProfile& a) const {
  const double T = workload_.local_tokens();
  const double S = workload_.sequence;
  const double heads = static_cast<double>(a.heads) / workload_.tp;
  const double width = static_cast<double>(a.qk_head_dim + a.v_head_dim);
  if (workload_.unfused_attention) {
    const double scores = T * S * heads;
    return (2.0 * scores * width / attention_rate_ +
            c(Constant::kUnfusedBytes) * scores / gpu_.memory_bandwidth) *
           own_.compute;
  }
  const double seen = a.window ? std::min(static_cast<double>(*a.window), S / 2.0) : S / 2.0;
  return 2.0 * T * seen * heads * width / attention_rate_ * own_.compute;
}

// Returns the number of rows that all experts of this rank process, if routing is balanced. A token
// counts as one row for each expert that processes it.
double PassTimes::expert_tokens(const model::FeedForwardProfile& f) const {
  return workload_.local_tokens() * static_cast<double>(f.experts_per_token) /
         workload_.sequence_parts() * (workload_.sequence_parallel ? workload_.expert_tp : 1.0);
}

Pass PassTimes::feed_forward(const model::FeedForwardProfile& f) const {
  Pass pass;
  const double T = workload_.local_tokens();
  const double h = workload_.model.hidden;
  const double matrices = f.gated ? 2.0 : 1.0;
  const double wide = c(Constant::kMlpTraffic) * traffic_ * own_.compute;
  // automesh computes the matmuls of experts in bfloat16 even if the plan has an FP8 recipe
  // (model::multiplies_in_fp8).
  const bool own = workload_.implementation == &cluster::automesh_implementation();
  const double expert_rate = own ? bf16_rate_ : rate_;
  for (const int64_t width : {f.dense_width, f.shared_width}) {
    if (width == 0) continue;
    const double F = static_cast<double>(width) / workload_.tp;
    const double rate = width == f.dense_width ? rate_ : expert_rate;
    const double half = c(Constant::kHalfTokens);
    pass.products += product(T, h, matrices * F, rate, half) + product(T, F, h, rate, half);
    pass.memory_bound += wide * T * F;
  }
  if (f.experts == 0) return pass;
  const double F = static_cast<double>(f.expert_width) / workload_.expert_tp;
  const double mine = expert_tokens(f);
  const double in = f.expert_input(h);
  const double each = workload_.local_tokens() * workload_.ep *
                      static_cast<double>(f.experts_per_token) / static_cast<double>(f.experts);
  const double slow = 1.0 + c(Constant::kHalfExpertTokens) / std::max(each, 1.0) +
                      c(Constant::kHalfOutput) / std::max(F, 1.0);
  pass.products += 2.0 * mine * (matrices + 1.0) * in * F / expert_rate * slow * own_.compute;
  // F counts the experts' activations; 2 * in counts sorting tokens by expert, and sorting the
  // outputs back.
  pass.memory_bound += wide * mine * (F + 2.0 * in);
  return pass;
}

double PassTimes::launch_floor(bool experts) const {
  double floor = c(workload_.implementation->old_launch ? Constant::kLaunchOld : Constant::kLaunch);
  if (experts) floor += c(Constant::kLaunchExperts);
  return floor * host_ * own_host_;
}

Passes PassTimes::layer(const model::LayerProfile& profile) const {
  const double T = workload_.local_tokens();
  const double h = workload_.model.hidden;
  Pass forward = feed_forward(profile.feed_forward);
  const double other =
      profile.other_weights - profile.cut_other_weights * (1.0 - 1.0 / workload_.tp);
  forward.products += projections(profile.attention) + product(T, h, other / h);
  forward.attention = attention(profile.attention);
  forward.memory_bound += c(Constant::kHiddenTraffic) * T * h * traffic_ * own_.compute *
                          (0.5 / workload_.sequence_parts() + 0.5 / workload_.tp);

  Passes passes{forward, {}, {}};
  // In backward the gradients of inputs cost as much as the forward, and the gradients of weights
  // as much again, but only for trained weights.
  const double trained =
      std::min(1.0, workload_.layout.trained / std::max(workload_.layout.backward_layers, 1e-9));
  passes.backward.products = (1.0 + trained) * forward.products;
  passes.backward.attention = (workload_.unfused_attention ? 2.0 : 2.5) * forward.attention;
  passes.backward.memory_bound = 2.0 * forward.memory_bound;
  const double floor = launch_floor(profile.feed_forward.experts > 0);
  add_launching(floor, passes.forward);
  add_launching(2.0 * floor, passes.backward);
  add_communication(profile, passes);
  add_recomputation(profile, passes);
  return passes;
}

void PassTimes::add_recomputation(const model::LayerProfile& profile, Passes& passes) const {
  switch (workload_.recompute) {
    case config::ActivationCheckpointing::kOff:
      return;
    case config::ActivationCheckpointing::kFull:
      passes.again = passes.forward;
      return;
    case config::ActivationCheckpointing::kSelective:
      if (workload_.megatron.recomputed) {
        passes.again = recomputed(*workload_.megatron.recomputed, profile, passes.forward);
        return;
      }
      // torchtitan's selective checkpointing keeps the outputs of attention and of every second
      // matmul, and recomputes the rest.
      passes.again.products = 0.5 * passes.forward.products;
      passes.again.memory_bound = passes.forward.memory_bound;
      return;
    case config::ActivationCheckpointing::kMlp:
      passes.again = feed_forward(profile.feed_forward);
      add_launching(0.5 * launch_floor(profile.feed_forward.experts > 0), passes.again);
      passes.again.tp = 0.5 * passes.forward.tp;
      passes.again.ep = passes.forward.ep;
      return;
  }
}

// Returns the times of recomputing `modules`, a selection of Megatron's modules, in one layer.
// `forward`: times of the layer's forward.
Pass PassTimes::recomputed(const config::RecomputedModules& modules,
                           const model::LayerProfile& profile, const Pass& forward) const {
  Pass again;
  const model::FeedForwardProfile& f = profile.feed_forward;
  const Repeated repeated = repeated_by(workload_, f);
  if (modules.core_attn) again.attention = forward.attention;
  if (modules.mla_up_proj) again.products += heads_of_latents(profile.attention);
  // Each norm reads and writes the hidden state once.
  const double hidden = workload_.local_tokens() * workload_.model.hidden;
  constexpr double kMovedByNorm = 2.0;
  if (modules.layernorm) {
    again.memory_bound += kMovedByNorm * profile.hidden_norms * hidden * traffic_ * own_.compute /
                          workload_.sequence_parts();
  }
  const double launches = (modules.core_attn || modules.mla_up_proj ? 0.25 : 0.0) +
                          (modules.layernorm ? 0.25 : 0.0) + 0.5 * repeated.feed_forward;
  const double wide = c(Constant::kMlpTraffic) * traffic_ * own_.compute;
  if (repeated.feed_forward > 0.0) {
    again.add(feed_forward(f), 1.0);
    again.tp = 0.5 * forward.tp;
    again.ep = forward.ep;
  } else if (f.experts == 0) {
    if (modules.mlp_act) {
      again.memory_bound +=
          wide * workload_.local_tokens() * static_cast<double>(f.dense_width) / workload_.tp;
    }
  } else {
    const double width = static_cast<double>(f.expert_width) / workload_.expert_tp;
    if (modules.moe_act) again.memory_bound += wide * expert_tokens(f) * width;
    if (modules.shared_experts) {
      again.add(feed_forward({.gated = f.gated, .shared_width = f.shared_width}), 1.0);
    }
  }
  add_launching(launches * launch_floor(repeated.feed_forward > 0.0 && f.experts > 0), again);
  return again;
}

void PassTimes::add_communication(const model::LayerProfile& profile, Passes& passes) const {
  const double T = workload_.local_tokens();
  const double h = workload_.model.hidden;
  const double bytes = workload_.product_bytes;
  if (workload_.tp > 1.0) {
    const double sent = 2.0 * 2.0 * T * h * bytes * (workload_.tp - 1.0) / workload_.tp;
    const double waiting = 2.0 * c(Constant::kTpLatency) * std::log2(workload_.tp);
    const double exposed = workload_.implementation->overlaps_tp ? c(Constant::kTpExposed) : 1.0;
    const double seconds = (sent / bandwidth(workload_.tp, 1.0) + waiting) * exposed;
    passes.forward.tp += seconds;
    passes.backward.tp += seconds;
  }
  if (workload_.cp > 1.0) {
    passes.context = context_bytes(profile.attention);
    const double seconds = c(Constant::kCpExposed) / bandwidth(workload_.cp, workload_.tp);
    passes.forward.cp += passes.context.forward * seconds;
    passes.backward.cp += passes.context.backward * seconds;
  }
  if (workload_.ep > 1.0 && profile.feed_forward.experts > 0) {
    const double sent = expert_bytes(profile.feed_forward);
    const double outside = workload_.ep <= domain_ ? 0.0 : 1.0 - domain_ / workload_.ep;
    const double seconds =
        sent * ((1.0 - outside) / link_ + outside / network_) * c(Constant::kEpExposed);
    passes.forward.ep += seconds;
    passes.backward.ep += seconds;
  }
}

layout::ContextBytes PassTimes::context_bytes(const model::AttentionProfile& a) const {
  layout::ContextAttention attention = {
      .batch = workload_.micro_batch,
      .heads = static_cast<double>(a.heads) / workload_.tp,
      .key_heads = static_cast<double>(a.key_value_heads) / workload_.tp,
      .key_width = static_cast<double>(a.qk_head_dim),
      .value_width = static_cast<double>(a.v_head_dim),
      .window = a.window.value_or(0),
      .element_bytes = workload_.product_bytes};
  if (workload_.context_method.empty()) {
    const double sent = (workload_.cp - 1.0) * workload_.local_tokens() * attention.key_heads *
                        (attention.key_width + attention.value_width) * workload_.product_bytes;
    return {sent, 2.0 * sent};
  }
  // If there are fewer key heads than tp ranks, each rank has a copy of one key head.
  attention.key_heads = std::max(1.0, attention.key_heads);
  const auto cut = mesh::cut_sequence({.length = static_cast<int64_t>(workload_.sequence),
                                       .ranks = static_cast<int64_t>(workload_.cp),
                                       .pieces = static_cast<int64_t>(workload_.sequence_parts())});
  return layout::context_bytes(workload_.context_method, cut, attention);
}

double PassTimes::expert_bytes(const model::FeedForwardProfile& f) const {
  const double in = f.expert_input(workload_.model.hidden);
  return 2.0 * expert_tokens(f) * in * workload_.product_bytes * (workload_.ep - 1.0) /
         workload_.ep;
}

Passes PassTimes::head() const {
  const double T = workload_.local_tokens();
  const double words = workload_.model.vocabulary / workload_.tp;
  Passes passes;
  passes.forward.products =
      product(T, workload_.model.hidden, words, bf16_rate_, c(Constant::kHalfTokens));
  passes.backward.products = 2.0 * passes.forward.products;
  // Bytes that forward reads and writes per logit. Backward reads and writes equally many.
  constexpr double kLogitBytes = 10.0;
  passes.forward.memory_bound = kLogitBytes * T * words / gpu_.memory_bandwidth * own_.compute;
  passes.backward.memory_bound = passes.forward.memory_bound;
  return passes;
}

}  // namespace am::predict
