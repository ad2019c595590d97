// AdamW over the shards that this rank stores: PyTorch's update, run by ATen's own fused kernel.
//
// Decoupled decay on every parameter, bias correction. The moments are flat like the parameters'
// shards (padding stays zero), one step count serves all. Update for step t:
//   p <- p * (1 - lr * weight_decay)
//   m <- beta1 m + (1 - beta1) g;  v <- beta2 v + (1 - beta2) g^2
//   p <- p - lr * (m / (1 - beta1^t)) / (sqrt(v / (1 - beta2^t)) + eps)
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace am::optim {

struct AdamWOptions {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0.01;
  bool offloaded = false;  // parameters are in host memory while a GPU computes
};

class AdamW {
 public:
  // `parameters` are updated in place at every step.
  AdamW(std::vector<at::Tensor> parameters, const AdamWOptions& options);

  // `gradients` parallel to the parameters; an undefined one leaves its parameter and moments as
  // they are.
  void step(const std::vector<at::Tensor>& gradients, double lr);

  // Flat tensors parallel to the parameters.
  const std::vector<at::Tensor>& exp_avg() const { return exp_avg_; }
  const std::vector<at::Tensor>& exp_avg_sq() const { return exp_avg_sq_; }
  // Finished steps; set when a checkpoint is read.
  int64_t steps() const { return steps_; }
  void set_steps(int64_t steps) { steps_ = steps; }

 private:
  std::vector<at::Tensor> parameters_;
  std::vector<at::Tensor> exp_avg_;
  std::vector<at::Tensor> exp_avg_sq_;
  AdamWOptions options_;
  int64_t steps_ = 0;
};

}  // namespace am::optim
