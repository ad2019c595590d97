// Seconds of one rank for one micro-batch's pass through a layer or the head: the first part of
// Note [Time model] (step_time.h).
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

// Seconds of one pass, by activity.
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
  Pass again;  // recomputation in backward, with its communication, of a checkpointed layer
  layout::ContextBytes context;  // sent by attention over cp ranks
};

// Number of times that a checkpointing mode repeats parts of a layer in backward, including their
// communication.
struct Repeated {
  double attention = 0.0;
  double feed_forward = 0.0;
};
Repeated repeated_by(config::ActivationCheckpointing mode);

class PassTimes {
 public:
  // All arguments must outlive the object.
  PassTimes(const Workload& workload, const cluster::Gpu& gpu, const CostConstants& constants);

  Passes layer(const model::LayerProfile& profile) const;
  // Time of the logits and the loss.
  Passes head() const;

  // Number of this job's GPUs that fast links connect.
  double link_domain() const { return domain_; }
  // Bytes per second of a collective over `ranks` ranks that are `stride` apart.
  double bandwidth(double ranks, double stride) const;
  // Bytes of sending tokens to their experts and back, once each.
  double expert_bytes(const model::FeedForwardProfile& f) const;
  // Factor by which this job's host is slower than the constants' host, for kernel launches and the
  // constant seconds per step.
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
  layout::ContextBytes context_bytes(const model::AttentionProfile& a) const;
  void add_communication(const model::LayerProfile& profile, Passes& passes) const;

  const Workload& workload_;
  const cluster::Gpu& gpu_;
  const CostConstants& c_;
  const ImplementationFactors own_;
  const double own_host_;
  double rate_ = 0, bf16_rate_ = 0, attention_rate_ = 0;  // FLOP/s
  double traffic_ = 0;  // seconds per element of memory-bound operators
  double host_ = 1;
  double link_ = 0, network_ = 0;  // bytes per second
  double domain_ = 1;
};

}  // namespace am::predict
