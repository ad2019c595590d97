#include "am/optim/optimizer.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

namespace am::optim {

at::Tensor FlatRange::of(const std::vector<at::Tensor>& flats) const { return of(flats[flat]); }

std::vector<ParameterRun> whole_runs(const std::vector<at::Tensor>& flats) {
  std::vector<ParameterRun> runs;
  for (size_t i = 0; i < flats.size(); ++i) runs.push_back({{i, 0, flats[i].numel()}});
  return runs;
}

void Optimizer::step(const std::vector<at::Tensor>& gradients, double lr) {
  const at::NoGradGuard no_grad;
  update(gradients, lr, steps_ + 1);
  ++steps_;
}

}  // namespace am::optim
