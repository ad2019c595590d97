// DTensor placements, and the chunking (that of torch.chunk) with which all tensors are sharded.
//
// am-plan and training call the same functions, so that predicted shards equal the real ones.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "am/base/shape.h"

namespace am::mesh {

// Placement of a tensor along one mesh axis, named as in PyTorch's DTensor.
struct Placement {
  enum class Kind { kReplicate, kShard, kPartial };
  Kind kind = Kind::kReplicate;
  int dim = 0;  // the dim that is sharded; meaningful for kShard only

  static Placement replicate() { return {}; }
  static Placement shard(int dim) { return {Kind::kShard, dim}; }
  static Placement partial() { return {Kind::kPartial, 0}; }
  bool is_shard() const { return kind == Kind::kShard; }
  bool operator==(const Placement&) const = default;
};

// Returns the placement in DTensor's notation: "Replicate", "Partial(sum)" or, for example,
// "Shard(0)".
std::string to_string(const Placement& placement);

// A range of indices of one dim.
struct Extent {
  int64_t offset = 0;
  int64_t size = 0;
  bool operator==(const Extent&) const = default;
};

// Returns ceil(size / parts): the length of the first, full pieces when `size` is cut into `parts`.
// FSDP pads every piece to this length.
int64_t chunk_length(int64_t size, int64_t parts);
// Returns piece `index` of torch.chunk(size, parts). Trailing pieces may be shorter or empty; an
// empty piece has offset == size. For example, cutting 5 into 4 parts gives lengths 2, 2, 1, 0.
Extent chunk(int64_t size, int64_t parts, int64_t index);

// A part of one dim that is cut over ranks by itself: one slice of a fused matrix, or the entire
// dim of any other tensor. Each piece of it is stored by `copies` neighbouring ranks; these are
// several if it has fewer KV heads than there are ranks.
struct DimSlice {
  Extent extent;
  int64_t copies = 1;
  bool operator==(const DimSlice&) const = default;
};
// Returns the piece that rank `index` stores when the slice is cut over `ranks` ranks.
// `slice.copies` must divide `ranks`.
Extent piece_of(const DimSlice& slice, int64_t ranks, int64_t index);

// A box of elements of a global tensor: one range of indices for each dim.
struct Box {
  Shape offset;
  Shape shape;

  int64_t numel() const { return am::numel(shape); }
  static Box whole(std::span<const int64_t> shape);
  bool operator==(const Box&) const = default;
};

// Returns the intersection of the boxes, or nothing if they are disjoint.
std::optional<Box> intersect(const Box& a, const Box& b);

// One cut of a tensor: `dim` is cut into `parts` pieces, of which piece `index` remains.
struct Cut {
  int dim = 0;
  int64_t parts = 1;
  int64_t index = 0;
};

// Returns the part of a tensor of this shape that remains after the cuts. Each cut is applied to
// the result of the previous one. Tensor parallelism must come before FSDP, which corresponds to
// the placements (_StridedShard, Shard) of DTensor.
Box cut_box(std::span<const int64_t> shape, std::span<const Cut> cuts);

}  // namespace am::mesh
