// Activation checkpointing: a segment of the model keeps its inputs instead of what autograd would
// save, and computes itself again when its backward begins.
//
//   // down(silu(gate(x)) * up(x)): keeps x and gate's output; only `up` is multiplied again.
//   const Tensors y = checkpoint(
//       [&](const Tensors& in, Products& products) -> Tensors {
//         const at::Tensor gate = products.multiply(gate_proj, in[0], Again::kKept);
//         const at::Tensor wide = at::silu(gate) * up_proj.product(in[0]);
//         return {products.multiply(down_proj, wide, Again::kReturned)};
//       },
//       {x});
//
// The segment runs without a graph in forward. Its node in the graph runs it again with one, under
// the autocast state and the weight pass (weight_pass.h) of its forward, and sends the gradients
// through: parameters get theirs in their usual place before the node's own gradients leave it, so
// hooks around a segment (UnitHooks) see the order that they would see without it. Gradients are
// the same to the bit.
//
// No layer has a generator whose state would be kept here too: what adapters drop is a function of
// where an element is (adapter_dropout.h).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "am/nn/layers.h"

namespace am::nn {

using Tensors = std::vector<at::Tensor>;

// What the second run of a segment does about an output of a matrix product.
enum class Again : uint8_t {
  kMultiplied,  // multiplies it again
  kKept,        // has its value, which is kept until backward
  // The segment returns it and does not look at it: backward needs no value of it, so nothing is
  // kept. In the second run it has its shape and dtype alone.
  kReturned,
};

// The matrix products of a segment. Each call means the same product in both runs, by its turn.
// Values are those of Linear::products. Outside of a segment it multiplies, and no more.
class Products {
 public:
  // `again`: one for each output of the linear.
  Tensors multiply(const Linear& linear, const at::Tensor& x, const std::vector<Again>& again);
  at::Tensor multiply(const Linear& linear, const at::Tensor& x, Again again) {
    return multiply(linear, x, std::vector{again}).front();
  }

  // The `count` tensors of a choice, such as the experts of tokens: kept, and not chosen again.
  std::vector<at::Tensor> chosen(size_t count,
                                 const std::function<std::vector<at::Tensor>()>& choose);

  // The second run: what the segment returns is not looked at.
  bool again() const { return run_ == Run::kSecond; }
  bool in_segment() const { return run_ != Run::kAlone; }
  // Begins a segment's first run, and its second, in which products have the values that are known.
  void record();
  void replay();

 private:
  enum class Run : uint8_t { kAlone, kFirst, kSecond };

  // Values of the first run, in their turn.
  Tensors next(size_t count);

  Run run_ = Run::kAlone;
  size_t turn_ = 0;
  Tensors values_;  // of each output; undefined: it is multiplied again
};

// What it reads besides its inputs (layers, a rotation) must outlive backward.
using Segment = std::function<Tensors(const Tensors& inputs, Products& products)>;

// The segment's outputs. An input may be returned as it is; then its other gradients join in the
// order in which autograd would add them. Without grad mode, or where no input needs a gradient and
// nothing inside `trains`, the segment simply runs.
Tensors checkpoint(Segment segment, const Tensors& inputs, bool trains);

}  // namespace am::nn
