// Activation checkpointing: a segment of the model keeps its inputs instead of what autograd would
// save, and is recomputed when its backward begins.
//
//   // down(silu(gate(x)) * up(x)): keeps x and gate's output; multiplies only `up` again.
//   const Tensors y = checkpoint(
//       [&](const Tensors& in, RecomputeTape& products) -> Tensors {
//         const at::Tensor gate = products.multiply(gate_proj, in[0], Recompute::kSave);
//         const at::Tensor wide = at::silu(gate) * up_proj.product(in[0]);
//         return {products.multiply(down_proj, wide, Recompute::kOutputOnly)};
//       },
//       {x}, /*trains=*/true);
//
// The forward runs the segment without a graph. In backward, the segment's autograd node runs it
// again with a graph, under the autocast state, weight pass (weight_pass.h) and dropout of its
// forward, and backpropagates through it. Parameters receive their gradients before the node
// returns the gradients of its inputs, so hooks around a segment (UnitHooks) fire in the same order
// as without checkpointing. Gradients are bitwise equal to those without checkpointing.
//
// No random generator state is saved: adapter dropout is a function of an element's position
// (adapter_dropout.h).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "am/nn/layers.h"

namespace am::nn {

using Tensors = std::vector<at::Tensor>;

// How the recomputation of a segment obtains an output of a matrix product.
enum class Recompute : uint8_t {
  kRecompute,  // multiplies once more
  kSave,       // reuses the first run's output, which is kept until backward
  // The segment only returns the output, so its value is not needed again. Nothing is kept, and the
  // recomputation gets a tensor with only the output's shape and dtype.
  kOutputOnly,
};

// Computes and records the matrix products of a segment. In the recomputation, the n-th call
// obtains the n-th product of the first run, as its Recompute mode says. The results equal those of
// Linear::products, except for the values of kOutputOnly outputs in the recomputation. Outside of a
// segment, products are computed and nothing is recorded.
class RecomputeTape {
 public:
  // `again` has one mode per output of the linear layer.
  Tensors multiply(const Linear& linear, const at::Tensor& x, const std::vector<Recompute>& again);
  at::Tensor multiply(const Linear& linear, const at::Tensor& x, Recompute again) {
    return multiply(linear, x, std::vector{again}).front();
  }

  // Returns the `count` tensors that `choose` computes for a discrete choice, such as the experts
  // of each token. The tensors are kept, and the recomputation reuses them instead of calling
  // `choose`.
  std::vector<at::Tensor> chosen(size_t count,
                                 const std::function<std::vector<at::Tensor>()>& choose);

  // True in the recomputation, in which the values of kOutputOnly outputs are not read.
  bool again() const { return run_ == Run::kSecond; }
  bool in_segment() const { return run_ != Run::kAlone; }
  // record() starts a segment's first run; replay() starts its recomputation, which reuses the
  // recorded values.
  void record();
  void replay();

 private:
  enum class Run : uint8_t { kAlone, kFirst, kSecond };

  // Returns the next `count` recorded values.
  Tensors next(size_t count);

  Run run_ = Run::kAlone;
  size_t turn_ = 0;
  Tensors values_;  // one value per recorded output; undefined if the output is recomputed
};

// A part of the model that is recomputed in backward. Objects that it reads besides its inputs
// (layers, rotations) must outlive backward.
using Segment = std::function<Tensors(const Tensors& inputs, RecomputeTape& products)>;

// Runs a segment and returns its outputs. A segment may return an input unchanged; autograd then
// sums the gradients of this input in the same order as without checkpointing. Runs the segment
// without checkpointing if grad mode is off, or if no input requires a gradient and `trains` (the
// segment has trainable parameters) is false.
Tensors checkpoint(Segment segment, const Tensors& inputs, bool trains);

}  // namespace am::nn
