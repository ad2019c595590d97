#include "am/parallel/param_group/flat_layout.h"

#include <ATen/ATen.h>

#include <span>
#include <utility>

namespace am::parallel {

FlatLayout::FlatLayout(const std::vector<const layout::ParameterLayout*>& layouts,
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
    piece.own_shape = layout->own_shape(mesh, rank);
    piece.packed_dim = layout->tp_dim.value_or(0);
    int64_t start = 0;
    for (layout::LocalShard& part : layout->parts(mesh, rank)) {
      const int64_t length = part.box.shape[static_cast<size_t>(piece.packed_dim)];
      const int64_t sums = layout->grad_sum_ranks(part);
      piece.boxes.push_back({std::move(part), start, sums});
      start += length;
    }
    flat_numel_ += piece.flat_length;
    flat_lengths_.push_back(piece.flat_length);
    even_ = even_ && (piece.outer == 1 || ranks_ == 1) &&
            piece.full_numel == ranks_ * piece.flat_length;
    pieces_.push_back(std::move(piece));
  }
}

at::Tensor Piece::view_of(const at::Tensor& flat) const {
  return flat.narrow(0, 0, numel(own_shape)).view(own_shape);
}

at::Tensor Piece::view_of(const at::Tensor& flat, const Box& box) const {
  return box_in(view_of(flat), box);
}

at::Tensor Piece::box_in(const at::Tensor& whole, const Box& box) const {
  if (boxes.size() == 1) return whole;
  const int64_t length = box.part.box.shape[static_cast<size_t>(packed_dim)];
  return whole.narrow(packed_dim, box.start, length);
}

at::Tensor FlatLayout::piece_in(const at::Tensor& flat, size_t i) const {
  return flat.narrow(0, pieces_[i].flat_offset, pieces_[i].flat_length);
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
