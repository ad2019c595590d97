#include "am/optim/averaged.h"

#include <ATen/ATen.h>

#include <string>
#include <utility>

#include "am/base/error.h"
#include "am/config/optimizer.h"
#include "am/tensor/memory_meter.h"

namespace am::optim {

Averaged::Averaged(std::unique_ptr<Optimizer> inner, const std::vector<at::Tensor>& flats,
                   const std::vector<FlatRange>& parameters, double decay, bool offloaded)
    : inner_(std::move(inner)), decay_(decay), ranges_(parameters) {
  const tensor::MemoryUse use(offloaded ? tensor::TensorUse::kHost : tensor::TensorUse::kOptimizer);
  for (const FlatRange& range : ranges_) {
    parameters_.push_back(range.of(flats));
    AM_ASSERT(parameters_.back().scalar_type() == at::kFloat, "an average requires float32");
    averages_.push_back(at::zeros_like(parameters_.back()));
  }
}

void Averaged::update(const std::vector<at::Tensor>& gradients, double lr, int64_t number,
                      double factor) {
  inner_->update(gradients, lr, number, factor);
  for (size_t i = 0; i < averages_.size(); ++i) {
    if (number == 1) {
      averages_[i].copy_(parameters_[i]);
    } else {
      averages_[i].lerp_(parameters_[i], 1.0 - decay_);
    }
  }
}

std::vector<StateTensor> Averaged::state_of(const FlatRange& range) const {
  std::vector<StateTensor> found = inner_->state_of(range);
  for (size_t i = 0; i < ranges_.size(); ++i) {
    if (!ranges_[i].contains(range)) continue;
    found.push_back({std::string(config::kAverageState),
                     averages_[i].narrow(0, range.offset - ranges_[i].offset, range.length)});
    break;
  }
  return found;
}

void Averaged::swap_average() {
  if (steps() == 0) return;
  for (size_t i = 0; i < averages_.size(); ++i) {
    const at::Tensor parameters = parameters_[i].clone();
    parameters_[i].copy_(averages_[i]);
    averages_[i].copy_(parameters);
  }
}

}  // namespace am::optim
