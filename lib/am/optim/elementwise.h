// AdamW, Adam and SGD for the shards that this rank stores. ATen's fused kernels run PyTorch's
// elementwise updates. The result does not depend on the layout or on padding.
//
// All parameters share one step counter. The formulas show step t for a parameter p with gradient
// g, learning rate lr and weight decay w. The states m, v and b start as zeros:
//   adamw  p <- p * (1 - lr w)
//          m <- beta1 m + (1 - beta1) g;  v <- beta2 v + (1 - beta2) g^2
//          p <- p - lr * (m / (1 - beta1^t)) / (sqrt(v / (1 - beta2^t)) + eps)
//   adam   like adamw with g + w p instead of g, and without the first line
//   sgd    b <- momentum b + (g + w p);  p <- p - lr b, or Nesterov's p - lr (g + w p + momentum b)
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <vector>

#include "am/optim/optimizer.h"

namespace am::optim {

enum class Formula { kAdamW, kAdam, kSgd };

struct ElementwiseOptions {
  Formula formula = Formula::kAdamW;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double lr = 1e-3;  // peak learning rate; step() receives the scheduled rate
  double weight_decay = 0.01;
  double momentum = 0.0;
  bool nesterov = false;
  bool offloaded = false;  // parameters are in host memory while a GPU computes
};

class Elementwise : public Optimizer {
 public:
  // Creates an optimizer of the parameters in `runs`, which are ranges of the flat tensors `flats`.
  // Elements outside of `runs` are never updated. An optimizer without `runs` updates all elements
  // of `flats`.
  Elementwise(const std::vector<at::Tensor>& flats, const std::vector<ParameterRun>& runs,
              const ElementwiseOptions& options);
  Elementwise(const std::vector<at::Tensor>& flats, const ElementwiseOptions& options)
      : Elementwise(flats, whole_runs(flats, {options.lr, options.weight_decay}), options) {}

  void update(const std::vector<at::Tensor>& gradients, double lr, int64_t number,
              double factor) override;
  // True if the parameters are not in host memory: a GPU's fused kernels also multiply the
  // gradients by `factor`. If the parameters are in host memory, step() multiplies the gradients
  // before it calls update().
  bool scales() const override;
  std::vector<StateTensor> state_of(const FlatRange& range) const override;

 private:
  struct Run {
    ParameterRun what;
    at::Tensor parameter;
    std::vector<at::Tensor> states;  // state tensors, in the order of names_
  };
  // Arguments of ATen's fused kernels.
  struct Lists {
    std::vector<at::Tensor> parameters, gradients;
    std::array<std::vector<at::Tensor>, 2> states;
  };

  Lists lists_of(const std::vector<at::Tensor>& gradients,
                 const layout::OptimizerOptions& options) const;
  void run_kernel(const Lists& lists, double weight_decay, double lr, int64_t number,
                  double factor) const;

  ElementwiseOptions options_;
  std::vector<const char*> names_;
  std::vector<Run> runs_;
  std::vector<layout::OptimizerOptions> distinct_;  // options of the runs, without duplicates
};

}  // namespace am::optim
