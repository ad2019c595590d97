// Seconds that one rank needs for the forward and the backward of one micro-batch through one layer
// or the head. This is the first part of Note [Time model] (step_time.h).
//
//   const PassTimes times(workload, gpu, constants);
//   times.layer(profile).forward.seconds();
#pragma once

#include "am/cluster/hardware.h"
#include "am/layout/context.h"
#include "am/model/layer_profile.h"
#include "am/predict/time/constants.h"
#include "am/predict/time/workload.h"

namespace am::predict {

// Seconds of one pass (a forward or a backward), by cause. `products` are matmuls, `memory_bound`
// is the time of operators that the memory's bandwidth limits, and `launching` is the time that
// kernel launches add. tp, cp and ep are the communication over these axes.
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
  Pass again;  // recomputation in the backward of a checkpointed layer, with its communication
  layout::ContextBytes context;  // bytes that attention over cp ranks sends
};

// How often, 0 or 1, backward of a checkpointed layer repeats the whole attention and the whole
// feed-forward, with their communication. Repeating only some of their operators counts as 0.
struct Repeated {
  double attention = 0.0;
  double feed_forward = 0.0;
};
Repeated repeated_by(const Workload& workload, const model::FeedForwardProfile& feed_forward);

class PassTimes {
 public:
  // All arguments must outlive the object.
  PassTimes(const Workload& workload, const cluster::Gpu& gpu, const CostConstants& constants);

  // Returns the times of one decoder layer.
  Passes layer(const model::LayerProfile& profile) const;
  // Returns the times of the logits and the loss.
  Passes head() const;

  // Returns the size of a link domain: the number of this job's GPUs that NVLink or similar fast
  // links connect with each other.
  double link_domain() const { return domain_; }
  // Returns the bandwidth of a collective over `ranks` ranks whose numbers are `stride` apart, as
  // the bytes that each rank sends per second.
  double bandwidth(double ranks, double stride) const;
  // Returns the bytes that a rank sends in one forward of a layer: tokens to their experts, and the
  // experts' outputs back.
  double expert_bytes(const model::FeedForwardProfile& f) const;
  // Returns the factor by which this job's hosts are slower than the constants assume. It applies
  // to kernel launches and to the constant seconds per step.
  double own_host() const { return own_host_; }

 private:
  double c(Constant constant) const { return c_[constant]; }
  void set_rates();
  void set_links();
  double product(double tokens, double in, double out, double rate, double half_tokens) const;
  double product(double tokens, double in, double out) const;
  double projections(const model::AttentionProfile& a) const;
  double attention(const model::AttentionProfile& a) const;
  double expert_tokens(const model::FeedForwardProfile& f) const;
  double heads_of_latents(const model::AttentionProfile& a) const;
  Pass feed_forward(const model::FeedForwardProfile& f) const;
  Pass recomputed(const config::RecomputedModules& modules, const model::LayerProfile& profile,
                  const Pass& forward) const;
  void add_recomputation(const model::LayerProfile& profile, Passes& passes) const;
  double launch_floor(bool experts) const;
  layout::ContextBytes context_bytes(const model::AttentionProfile& a) const;
  void add_communication(const model::LayerProfile& profile, Passes& passes) const;

  const Workload& workload_;
  const cluster::Gpu& gpu_;
  const CostConstants& c_;
  const ImplementationFactors own_;
  const double own_host_;
  // FLOP/s that matmuls reach in the workload's format and in bf16, and that attention reaches.
  double rate_ = 0, bf16_rate_ = 0, attention_rate_ = 0;
  double traffic_ = 0;  // seconds in which memory-bound operators read or write one element
  double host_ = 1;
  double link_ = 0, network_ = 0;  // bytes per second of a GPU's links, and of its network
  double domain_ = 1;
};

}  // namespace am::predict
