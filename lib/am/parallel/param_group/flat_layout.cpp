#include "am/parallel/param_group/flat_layout.h"

#include <ATen/ATen.h>

#include <span>

namespace am::parallel {

FlatLayout::FlatLayout(const std::vector<const planner::ParameterLayout*>& layouts,
                       const mesh::MeshLayout& mesh, int64_t rank, int64_t ranks)
    : ranks_(ranks) {
  for (const auto* layout : layouts) {
    Piece piece;
    piece.full_shape = layout->tp_shape(mesh, rank);
    piece.full_numel = numel(piece.full_shape);
    if (layout->fsdp) {
      piece.outer = numel(std::span(piece.full_shape).first(static_cast<size_t>(layout->fsdp_dim)));
    }
    piece.flat_offset = flat_numel_;
    piece.flat_length = layout->stored_numel(mesh, rank);
    piece.grad_sum_over_tp = layout->grad_sum_over_tp;
    flat_numel_ += piece.flat_length;
    pieces_.push_back(std::move(piece));
  }
}

void FlatLayout::zero_padding(const at::Tensor& ranks) const {
  for (const Piece& piece : pieces_) {
    const int64_t length = piece.flat_length;
    if (length == 0 || piece.full_numel == ranks_ * length) continue;
    int64_t whole = piece.full_numel / length;
    const int64_t rest = piece.full_numel - whole * length;
    if (rest > 0) ranks[whole].narrow(0, piece.flat_offset + rest, length - rest).zero_();
    whole += rest > 0 ? 1 : 0;
    ranks.narrow(0, whole, ranks_ - whole).narrow(1, piece.flat_offset, length).zero_();
  }
}

}  // namespace am::parallel
