#include "am/parallel/module/parallel_layers.h"

#include <ATen/ATen.h>

#include "am/base/error.h"
#include "am/base/text.h"
#include "am/mesh/shard.h"
#include "am/parallel/tp/functions.h"
#include "am/parallel/tp/vocabulary.h"

namespace am::parallel {

namespace {

constexpr int64_t kSequenceDim = 1;

void require_divisible(const layout::ParameterLayout& parameter, int dim, int64_t parts) {
  const int64_t size = parameter.shape.at(static_cast<size_t>(dim));
  if (size % parts == 0) return;
  throw Error(
      ErrorKind::kPlan,
      cat("dimension ", dim, " of ", parameter.name, " is ", size, ", not a multiple of ", parts),
      "use another tp size, or leave the layer out of the tensor-parallel plan");
}

[[noreturn]] void refuse(TpStyle style, const layout::ParameterLayout& parameter,
                         const char* legal) {
  throw Error(ErrorKind::kPlan,
              cat("the style ", model::to_string(style), " cannot shard ", parameter.name),
              cat("legal: ", legal));
}

}  // namespace

at::Tensor ParallelLayer::enter_colwise(const at::Tensor& x) const {
  return style_.sequence_parallel ? tp::gather_sequence(x, kSequenceDim, *style_.tp)
                                  : tp::copy_to_group(x, *style_.tp);
}

at::Tensor ParallelLayer::leave_rowwise(const at::Tensor& y) const {
  return style_.sequence_parallel ? tp::scatter_sum(y, kSequenceDim, *style_.tp)
                                  : tp::sum_over_group(y, *style_.tp);
}

at::Tensor LinearImpl::forward(const at::Tensor& x) {
  if (style().tp == nullptr) return torch::nn::LinearImpl::forward(x);
  switch (style().style) {
    case TpStyle::kRowwise:
    case TpStyle::kRowwiseRep: {
      const bool split = style().style == TpStyle::kRowwiseRep;
      const at::Tensor own = split ? tp::take_piece(x, -1, *style().tp) : x;
      const at::Tensor y = leave_rowwise(at::linear(own, weight));
      return bias.defined() ? y + bias : y;
    }
    default:
      break;
  }
  const at::Tensor y = at::linear(enter_colwise(x), weight, bias);
  return style().style == TpStyle::kColwiseRep
             ? tp::gather_pieces(y, -1, options.out_features(), *style().tp)
             : y;
}

void LinearImpl::place(const Style& style, int64_t tp, layout::ParameterLayout& parameter,
                       std::string_view name) const {
  switch (style.style) {
    case TpStyle::kPackedColwise:
      require_divisible(parameter, 0, tp * slices_);
      parameter.tp_dim = 0;
      for (int64_t i = 0; i < slices_ && slices_ > 1; ++i) {
        const int64_t length = options.out_features() / slices_;
        parameter.tp_slices.push_back({{i * length, length}});
      }
      return;
    case TpStyle::kColwise:
    case TpStyle::kColwiseRep:
      require_divisible(parameter, 0, tp);
      parameter.tp_dim = 0;
      return;
    case TpStyle::kRowwise:
    case TpStyle::kRowwiseRep:
      if (name == "bias") {  // its gradient is a partial sum if positions are sharded over tp
        parameter.grad_sum_over_tp = style.sequence_parallel;
        return;
      }
      require_divisible(parameter, 1, tp);
      parameter.tp_dim = 1;
      return;
    default:
      refuse(style.style, parameter, "colwise, colwise_rep, packed_colwise, rowwise, rowwise_rep");
  }
}

at::Tensor EmbeddingImpl::forward(const at::Tensor& ids) {
  if (style().tp == nullptr) return torch::nn::EmbeddingImpl::forward(ids);
  const mesh::Extent slice =
      mesh::piece_of({{0, options.num_embeddings()}}, style().tp->size(), style().tp->index());
  return leave_rowwise(tp::lookup_slice(ids, weight, slice, options.padding_idx()));
}

void EmbeddingImpl::place(const Style& style, int64_t tp, layout::ParameterLayout& parameter,
                          std::string_view /*name*/) const {
  if (style.style != TpStyle::kRowwise && style.style != TpStyle::kRowwiseRep) {
    refuse(style.style, parameter, "rowwise, rowwise_rep");
  }
  require_divisible(parameter, 0, tp);
  parameter.tp_dim = 0;
}

}  // namespace am::parallel
