#include "am/optim/optimizer.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

namespace am::optim {

at::Tensor FlatRange::of(const std::vector<at::Tensor>& flats) const { return of(flats[flat]); }

std::vector<ParameterRun> whole_runs(const std::vector<at::Tensor>& flats,
                                     const layout::OptimizerOptions& options) {
  std::vector<ParameterRun> runs;
  for (size_t i = 0; i < flats.size(); ++i) runs.push_back({{i, 0, flats[i].numel()}, options});
  return runs;
}

void Optimizer::step(const std::vector<at::Tensor>& gradients, double lr, double factor) {
  const at::NoGradGuard no_grad;
  if (factor != 1.0 && !scales()) {
    for (const at::Tensor& gradient : gradients) {
      if (gradient.defined()) gradient.mul_(factor);
    }
    factor = 1.0;
  }
  update(gradients, lr, steps_ + 1, factor);
  ++steps_;
}

}  // namespace am::optim
