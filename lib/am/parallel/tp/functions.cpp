#include "am/parallel/tp/functions.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include "am/base/fault.h"
#include "am/tensor/redistribute.h"

namespace am::parallel::tp {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

enum class Move { kNothing, kAllReduce, kGather, kOwnPiece, kReduceScatter };

// Performs `move` on x. `size`: global length of `dim`, which only a gather needs.
at::Tensor carry_out(Move move, const at::Tensor& x, int64_t dim, int64_t size,
                     const runtime::Group& group) {
  switch (move) {
    case Move::kNothing:
      return x;
    case Move::kAllReduce: {
      at::Tensor sum = x.contiguous().clone();
      group.all_reduce(sum);
      return sum;
    }
    case Move::kGather:
      return tensor::all_gather_dim(x, dim, size, group);
    case Move::kOwnPiece:
      return tensor::local_chunk(x, dim, group).contiguous();
    case Move::kReduceScatter:
      return tensor::reduce_scatter_dim(x, dim, group);
  }
  return x;
}

// Autograd node of a redistribution. The node stores the address of the group: the device mesh owns
// the group, which outlives the graph.
struct Redistribute : torch::autograd::Function<Redistribute> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, int64_t dim,
                            int64_t size, Move ahead, Move back, const runtime::Group* group) {
    context->saved_data["dim"] = dim;
    context->saved_data["size"] = size;
    context->saved_data["back"] = static_cast<int64_t>(back);
    context->saved_data["group"] = reinterpret_cast<int64_t>(group);
    at::Tensor y = carry_out(ahead, x, dim, size, *group);
    return y.is_same(x) ? x.view_as(x) : y;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto* group =
        reinterpret_cast<const runtime::Group*>(context->saved_data["group"].toInt());
    const auto back = static_cast<Move>(context->saved_data["back"].toInt());
    at::Tensor gradient = carry_out(back, gradients[0], context->saved_data["dim"].toInt(),
                                    context->saved_data["size"].toInt(), *group);
    return {gradient, at::Tensor(), at::Tensor(), at::Tensor(), at::Tensor(), at::Tensor()};
  }
};

at::Tensor redistribute(const at::Tensor& x, int64_t dim, int64_t size, Move ahead, Move back,
                        const runtime::Group& group) {
  if (group.size() == 1) return x;
  const int64_t from_front = dim < 0 ? dim + x.dim() : dim;
  return Redistribute::apply(x, from_front, size, ahead, back, &group);
}

}  // namespace

at::Tensor copy_to_group(const at::Tensor& x, const runtime::Group& group) {
  const Move back =
      fault::is_planted(fault::Fault::kTpInputSum) ? Move::kNothing : Move::kAllReduce;
  return redistribute(x, 0, 0, Move::kNothing, back, group);
}

at::Tensor sum_over_group(const at::Tensor& x, const runtime::Group& group) {
  return redistribute(x, 0, 0, Move::kAllReduce, Move::kNothing, group);
}

at::Tensor gather_pieces(const at::Tensor& x, int64_t dim, int64_t size,
                         const runtime::Group& group) {
  return redistribute(x, dim, size, Move::kGather, Move::kOwnPiece, group);
}

at::Tensor take_piece(const at::Tensor& x, int64_t dim, const runtime::Group& group) {
  return redistribute(x, dim, x.size(dim), Move::kOwnPiece, Move::kGather, group);
}

at::Tensor gather_sequence(const at::Tensor& x, int64_t dim, const runtime::Group& group) {
  // All sequence shards have the same length. The rule seq.sp requires that tp divides the sequence
  // length; with cp, each cp rank pads its part to a multiple of tp instead.
  return redistribute(x, dim, x.size(dim) * group.size(), Move::kGather, Move::kReduceScatter,
                      group);
}

at::Tensor scatter_sum(const at::Tensor& x, int64_t dim, const runtime::Group& group) {
  return redistribute(x, dim, x.size(dim), Move::kReduceScatter, Move::kGather, group);
}

}  // namespace am::parallel::tp
