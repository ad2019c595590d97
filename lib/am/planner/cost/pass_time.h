// Seconds that one rank needs for one micro-batch's pass through a layer, or through the head: the
// first part of Note [Time model] (step_time.h).
//
//   const PassTimes times(workload, gpu, constants);
//   times.layer(profile).forward.seconds();
#pragma once

#include "am/model/layer_profile.h"
#include "am/planner/context.h"
#include "am/planner/cost/constants.h"
#include "am/planner/cost/hardware.h"
#include "am/planner/cost/workload.h"

namespace am::planner {

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
  Pass again;            // what backward computes and sends once more of a checkpointed layer
  ContextBytes context;  // that attention over cp ranks sends
};

// How many times a mode of checkpointing runs a layer's parts again in backward, with their
// messages.
struct Repeated {
  double attention = 0.0;
  double feed_forward = 0.0;
};
Repeated repeated_by(config::ActivationCheckpointing mode);

class PassTimes {
 public:
  // All three must outlive this.
  PassTimes(const Workload& workload, const Gpu& gpu, const CostConstants& constants);

  Passes layer(const model::LayerProfile& profile) const;
  // Logits and the loss.
  Passes head() const;

  // GPUs that fast links join, of those that this job uses.
  double link_domain() const { return domain_; }
  // Bytes a second of a collective among `ranks` ranks that stand `stride` apart.
  double bandwidth(double ranks, double stride) const;
  // Of tokens to their experts and back, once each.
  double expert_bytes(const model::FeedForwardProfile& f) const;
  // How much slower this job's host is than the constants': of launching, and of a step's fixed
  // part.
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
  Pass feed_forward(const model::FeedForwardProfile& f) const;
  void add_recomputation(const model::LayerProfile& profile, Passes& passes) const;
  double launch_floor(bool experts) const;
  ContextBytes context_bytes(const model::AttentionProfile& a) const;
  void add_communication(const model::LayerProfile& profile, Passes& passes) const;

  const Workload& workload_;
  const Gpu& gpu_;
  const CostConstants& c_;
  const ImplementationFactors own_;
  const double own_host_;
  double rate_ = 0, bf16_rate_ = 0, attention_rate_ = 0;  // operations a second
  double traffic_ = 0;  // seconds an element of memory-bound operators
  double host_ = 1;
  double link_ = 0, network_ = 0;  // bytes a second
  double domain_ = 1;
};

}  // namespace am::planner
