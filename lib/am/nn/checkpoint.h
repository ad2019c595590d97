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
// The forward runs the segment without an autograd graph. In backward, the segment's autograd node
// runs the segment again, with a graph, and backpropagates through this graph. The second run uses
// the autocast state, the dropout and the weight pass of the first run. A weight pass
// (weight_pass.h) may postpone the gradients of weights. Parameters receive their gradients before
// the node returns the gradients of the segment's inputs, so hooks around a segment (UnitHooks)
// fire in the same order as without checkpointing. Gradients are bitwise equal to those without
// checkpointing.
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
  // For an output that the segment only returns, and whose value the recomputation does not read.
  // Nothing is kept; the recomputation obtains a tensor with the output's shape and dtype only.
  kOutputOnly,
};

// Computes the matrix products of a segment, and records them for the recomputation, which must
// make the same calls in the same order. An output's Recompute mode determines how the
// recomputation obtains the output. The results equal those of Linear::products, except for the
// values of kOutputOnly outputs in the recomputation. Outside of a segment, products are computed
// and not recorded.
class RecomputeTape {
 public:
  // Returns the outputs of the linear layer's product with x. `again` contains one mode per output.
  Tensors multiply(const Linear& linear, const at::Tensor& x, const std::vector<Recompute>& again);
  at::Tensor multiply(const Linear& linear, const at::Tensor& x, Recompute again) {
    return multiply(linear, x, std::vector{again}).front();
  }

  // Returns the `count` tensors that `choose` computes for a discrete choice, such as the experts
  // of each token. The tensors are kept, and the recomputation reuses them instead of calling
  // `choose`.
  std::vector<at::Tensor> chosen(size_t count,
                                 const std::function<std::vector<at::Tensor>()>& choose);

  // Whether the segment is being recomputed. The values of kOutputOnly outputs are then
  // meaningless.
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

// A function that computes a part of the model, and that backward runs again. Objects that the
// function reads besides `inputs` (layers, rotations) must outlive backward.
using Segment = std::function<Tensors(const Tensors& inputs, RecomputeTape& products)>;

// Runs a segment and returns its outputs. If the segment returns an input unchanged, autograd sums
// the gradients of this input in the same order as without checkpointing. `trains`: whether the
// segment has trainable parameters. Runs the segment without checkpointing if grad mode is off, or
// if no input requires a gradient and `trains` is false.
Tensors checkpoint(Segment segment, const Tensors& inputs, bool trains);

}  // namespace am::nn
