// Offsets and shapes of a unit's parameters in its flat tensors.
//
// Each parameter is cut over the shard group as by torch.chunk, and every piece is padded to the
// length of the first piece, so that all ranks store equally many elements. If a parameter is cut
// along dim 0, its pieces may differ in size. If it is cut along another dim, its pieces are equal
// in size, and not contiguous in the full tensor. A rank's pieces follow one another in the flat
// tensor `flat` [flat_numel], also called the flat shard. The flat tensors of all ranks of the
// group together, `ranks` [ranks, flat_numel], are the output of an all-gather and the input of a
// reduce-scatter.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "am/base/shape.h"
#include "am/layout/layout.h"
#include "am/mesh/layout.h"

namespace am::parallel {

// This rank's piece of one parameter.
struct Piece {
  int64_t flat_offset = 0;  // index of the piece's first element in the flat shard
  int64_t flat_length = 0;  // number of the piece's elements in the flat shard, padding included
  // Shape of the parameter after tp or ep sharding, before it is cut over the shard group.
  Shape full_shape;
  int64_t full_numel = 0;
  int64_t outer = 1;  // product of the sizes of the dims before the dim that FSDP shards
  Shape own_shape;    // shape of this rank's piece, without padding
  // Dim along which the boxes (rectangular blocks of the parameter) follow one another in the
  // piece. A piece has several boxes if tp cuts the parameter slice by slice, as with a fused QKV.
  int packed_dim = 0;
  struct Box {
    layout::LocalShard part;
    int64_t start = 0;  // index, along packed_dim of the piece, at which the box begins
    // Number of neighbouring tp ranks whose gradients of this box are summed.
    int64_t grad_sum_ranks = 1;
  };
  std::vector<Box> boxes;  // at least one

  // Return a view of the whole piece [own_shape], or of one of its boxes [box.part.box.shape].
  // `flat`: the part of a flat tensor that belongs to this piece.
  at::Tensor view_of(const at::Tensor& flat) const;
  at::Tensor view_of(const at::Tensor& flat, const Box& box) const;
  // Returns a view of one of the boxes in `whole`, a tensor of the shape own_shape.
  at::Tensor box_in(const at::Tensor& whole, const Box& box) const;
};

class FlatLayout {
 public:
  // `rank`: this rank's number in the mesh. `ranks`: number of ranks of the shard group.
  FlatLayout(const std::vector<const layout::ParameterLayout*>& layouts,
             const mesh::MeshLayout& mesh, int64_t rank, int64_t ranks);

  size_t size() const { return pieces_.size(); }
  const Piece& operator[](size_t i) const { return pieces_[i]; }
  int64_t flat_numel() const { return flat_numel_; }
  int64_t ranks() const { return ranks_; }
  // Return a view of a piece, or of one of its boxes, in a flat shard; see Piece::view_of.
  at::Tensor view(const at::Tensor& flat, size_t i) const {
    return pieces_[i].view_of(piece_in(flat, i));
  }
  at::Tensor view(const at::Tensor& flat, size_t i, const Piece::Box& box) const {
    return pieces_[i].view_of(piece_in(flat, i), box);
  }

  // Calls visit(of_full, of_ranks) with two views of equal shape: `of_full` views elements of
  // parameter `i` in the flattened full tensor `full`, and `of_ranks` the same elements in `ranks`.
  // The first call covers all pieces of full length, the second call the shorter piece, if there is
  // one. All later pieces are empty.
  template <typename Visit>
  void for_each_part(size_t i, const at::Tensor& full, const at::Tensor& ranks,
                     const Visit& visit) const;
  // even(): whether the pieces of all ranks, joined, are the full tensor of every parameter,
  // without padding. flat_lengths() returns the flat_length of every piece.
  bool even() const { return even_; }
  const std::vector<int64_t>& flat_lengths() const { return flat_lengths_; }
  // Writes zeros to all elements of `ranks` that belong to no parameter.
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
