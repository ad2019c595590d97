#include "am/nn/projections.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cstddef>

namespace am::nn {
namespace {

// Returns the recomputation modes of the outputs first .. first + count - 1. `again` has one mode
// per output, or one mode for all outputs.
std::vector<Recompute> part_of(const std::vector<Recompute>& again, size_t first, size_t count) {
  std::vector<Recompute> part;
  for (size_t i = 0; i < count; ++i) part.push_back(again[again.size() == 1 ? 0 : first + i]);
  return part;
}

bool alike(const std::vector<Recompute>& again) {
  return std::adjacent_find(again.begin(), again.end(), std::not_equal_to<>()) == again.end();
}

}  // namespace

Tensors Projections::products(const at::Tensor& x, const std::vector<Recompute>& again,
                              RecomputeTape& products) const {
  Tensors outputs, inputs;
  size_t first = 0;
  for (const Linear& linear : linears) {
    const auto same =
        std::find_if(linears.begin(), linears.begin() + inputs.size(),
                     [&](const Linear& other) { return other.input == linear.input; });
    const auto before = static_cast<size_t>(same - linears.begin());
    inputs.push_back(before < inputs.size() ? inputs[before] : apply_transform(linear.input, x));
    const size_t slices = std::max<size_t>(1, linear.slices.size());
    std::vector<Recompute> of_linear = part_of(again, first, slices);
    if (linear.outputs() < slices) {
      of_linear = {alike(of_linear) ? of_linear.front() : Recompute::kRecompute};
    }
    for (at::Tensor& y : products.multiply(linear, inputs.back(), of_linear)) {
      outputs.push_back(std::move(y));
    }
    first += slices;
  }
  return outputs;
}

Tensors Projections::finish(const Tensors& products) const {
  Tensors outputs;
  auto next = products.begin();
  for (const Linear& linear : linears) {
    if (linear.outputs() > 1) {
      outputs.insert(outputs.end(), next, next + static_cast<std::ptrdiff_t>(linear.outputs()));
      next += static_cast<std::ptrdiff_t>(linear.outputs());
      continue;
    }
    const at::Tensor y = linear.finish(*next++);
    if (linear.slices.empty()) {
      outputs.push_back(y);
      continue;
    }
    // Copies each slice, because a view that is saved until backward would keep the whole product
    // alive.
    for (const at::Tensor& slice : y.split_with_sizes(linear.slices, -1)) {
      outputs.push_back(slice.contiguous());
    }
  }
  return outputs;
}

}  // namespace am::nn
