// Where a unit's parameters lie in its flat tensors.
//
// Each parameter is cut by torch.chunk over the shard group; every piece is padded to the first
// one's length, so that ranks hold equal amounts. On dimension 0 pieces may differ; on another they
// are equal, and lie across the full tensor. A rank's pieces lie one after the other:
// `flat` [flat_numel]; the flat tensors of all ranks, `ranks` [ranks, flat_numel], are what an
// all-gather gives and a reduce-scatter takes.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "am/base/shape.h"
#include "am/mesh/layout.h"
#include "am/planner/layout.h"

namespace am::parallel {

struct Piece {
  int64_t flat_offset = 0;  // in the flat shard
  int64_t flat_length = 0;  // padding included
  Shape full_shape;         // tp-local
  int64_t full_numel = 0;
  int64_t outer = 1;   // elements of the dimensions before the one that is cut
  Shape own_shape;     // of this rank's piece, without padding
  int packed_dim = 0;  // the boxes of a matrix that is cut slice by slice follow each other on it
  struct Box {
    planner::OwnPart part;
    int64_t start = 0;           // in the piece, on packed_dim
    int64_t grad_sum_ranks = 1;  // tp ranks, neighbours, whose gradients are parts of a sum
  };
  std::vector<Box> boxes;  // at least one

  // [own_shape], or [box.part.box.shape], of a flat tensor that is this piece.
  at::Tensor view_of(const at::Tensor& flat) const;
  at::Tensor view_of(const at::Tensor& flat, const Box& box) const;
};

class FlatLayout {
 public:
  FlatLayout(const std::vector<const planner::ParameterLayout*>& layouts,
             const mesh::MeshLayout& mesh, int64_t rank, int64_t ranks);

  size_t size() const { return pieces_.size(); }
  const Piece& operator[](size_t i) const { return pieces_[i]; }
  int64_t flat_numel() const { return flat_numel_; }
  int64_t ranks() const { return ranks_; }
  // [own_shape] of a piece in a flat shard, or of one of its boxes.
  at::Tensor view(const at::Tensor& flat, size_t i) const {
    return pieces_[i].view_of(piece_in(flat, i));
  }
  at::Tensor view(const at::Tensor& flat, size_t i, const Piece::Box& box) const {
    return pieces_[i].view_of(piece_in(flat, i), box);
  }

  // Calls `visit(of_full, of_ranks)` with the parts of a full tensor, which is given flat, and
  // where they are in `ranks`, views of one shape: all whole pieces at once, then the one that is
  // shorter. FlatLayout after it are empty.
  template <typename Visit>
  void for_each_part(size_t i, const at::Tensor& full, const at::Tensor& ranks,
                     const Visit& visit) const;
  // Whether a piece's full tensor is [ranks, flat_length] elements in their order, without padding,
  // for all pieces; and those lengths.
  bool even() const { return even_; }
  const std::vector<int64_t>& flat_lengths() const { return flat_lengths_; }
  // Writes zeros wherever `ranks` holds no part of a parameter.
  void zero_padding(const at::Tensor& ranks) const;

 private:
  at::Tensor piece_in(const at::Tensor& flat, size_t i) const;

  std::vector<Piece> pieces_;
  std::vector<int64_t> flat_lengths_;
  bool even_ = true;
  int64_t flat_numel_ = 0;
  int64_t ranks_ = 1;
};

template <typename Visit>
void FlatLayout::for_each_part(size_t i, const at::Tensor& full, const at::Tensor& ranks,
                               const Visit& visit) const {
  const Piece& piece = pieces_[i];
  if (piece.full_numel == 0) return;
  const int64_t length = piece.flat_length;
  if (piece.outer > 1) {
    const int64_t inner = length / piece.outer;
    visit(full.view({piece.outer, ranks_, inner}).transpose(0, 1),
          ranks.narrow(1, piece.flat_offset, length).unflatten(1, {piece.outer, inner}));
    return;
  }
  const int64_t whole = piece.full_numel / length;
  if (whole > 0) {
    visit(full.narrow(0, 0, whole * length).view({whole, length}),
          ranks.narrow(0, 0, whole).narrow(1, piece.flat_offset, length));
  }
  const int64_t rest = piece.full_numel - whole * length;
  if (rest == 0) return;
  visit(full.narrow(0, whole * length, rest), ranks[whole].narrow(0, piece.flat_offset, rest));
}

}  // namespace am::parallel
