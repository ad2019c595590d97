// An optimizer that also keeps an exponential moving average (EMA) of the parameters:
//
//   average <- decay * average + (1 - decay) * parameter
//
// after each step. The average starts as the parameters after the first step, as with PyTorch's
// torch.optim.swa_utils.AveragedModel and get_ema_multi_avg_fn.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <vector>

#include "am/optim/optimizer.h"

namespace am::optim {

class Averaged : public Optimizer {
 public:
  // `parameters`: the float32 ranges of `flats` that `inner` updates. `offloaded`: whether `flats`
  // are in host memory while a GPU computes.
  Averaged(std::unique_ptr<Optimizer> inner, const std::vector<at::Tensor>& flats,
           const std::vector<FlatRange>& parameters, double decay, bool offloaded);

  void update(const std::vector<at::Tensor>& gradients, double lr, int64_t number,
              double factor) override;
  bool scales() const override { return inner_->scales(); }
  // Returns the states of the inner optimizer, and config::kAverageState last.
  std::vector<StateTensor> state_of(const FlatRange& range) const override;
  void swap_average() override;

 private:
  std::unique_ptr<Optimizer> inner_;
  double decay_;
  std::vector<FlatRange> ranges_;
  std::vector<at::Tensor> parameters_;  // the parameters of ranges_, in the flat tensors
  std::vector<at::Tensor> averages_;
};

}  // namespace am::optim
