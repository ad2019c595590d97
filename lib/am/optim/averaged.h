// An optimizer that also keeps an exponential moving average (EMA) of the parameters. After each
// step:
//
//   average <- decay * average + (1 - decay) * parameter
//
// The first step sets the average to the updated parameters. PyTorch's
// torch.optim.swa_utils.AveragedModel with get_ema_multi_avg_fn computes the same average.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <vector>

#include "am/optim/optimizer.h"

namespace am::optim {

class Averaged : public Optimizer {
 public:
  // `parameters`: the ranges of `flats` that `inner` updates and that are averaged; they must be
  // float32.
  // `offloaded`: whether `flats` are in host memory while a GPU computes.
  Averaged(std::unique_ptr<Optimizer> inner, const std::vector<at::Tensor>& flats,
           const std::vector<FlatRange>& parameters, double decay, bool offloaded);

  void update(const std::vector<at::Tensor>& gradients, double lr, int64_t number,
              double factor) override;
  bool scales() const override { return inner_->scales(); }
  // Returns the state tensors of the inner optimizer and, last, the average
  // (config::kAverageState).
  std::vector<StateTensor> state_of(const FlatRange& range) const override;
  void swap_average() override;

 private:
  std::unique_ptr<Optimizer> inner_;
  double decay_;
  std::vector<FlatRange> ranges_;
  std::vector<at::Tensor> parameters_;  // views of the flat tensors, one per range
  std::vector<at::Tensor> averages_;
};

}  // namespace am::optim
