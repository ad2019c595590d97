// DTensor placements, and the division of a dim into chunks as by torch.chunk. All tensors are
// sharded by this division.
//
// am-plan and training call the same functions, so predicted and real shards are equal.
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

// Returns ceil(size / parts), the length of a full chunk when a dim of `size` is cut into `parts`
// chunks. FSDP pads every chunk to this length.
int64_t chunk_length(int64_t size, int64_t parts);
// Returns chunk `index` of torch.chunk(size, parts). Trailing chunks may be shorter or empty; an
// empty chunk has offset == size. For example, cutting 5 into 4 chunks yields lengths 2, 2, 1, 0.
Extent chunk(int64_t size, int64_t parts, int64_t index);

// A range of one dim that is sharded separately: a slice of a fused matrix, such as K of QKV, or
// the entire dim of any other tensor. `copies` neighbouring ranks store each shard of the range.
// `copies` is more than 1 if there are fewer KV heads than ranks.
struct DimSlice {
  Extent extent;
  int64_t copies = 1;
  bool operator==(const DimSlice&) const = default;
};
// Returns the range that rank `index` stores when the slice is sharded over `ranks` ranks. The
// range is relative to the whole dim. `slice.copies` must divide `ranks`.
Extent piece_of(const DimSlice& slice, int64_t ranks, int64_t index);

// A part of a global tensor: one range of indices per dim.
struct Box {
  Shape offset;
  Shape shape;

  int64_t numel() const { return am::numel(shape); }
  static Box whole(std::span<const int64_t> shape);
  bool operator==(const Box&) const = default;
};

// Returns the intersection of the boxes, or nothing if they are disjoint.
std::optional<Box> intersect(const Box& a, const Box& b);

// One sharding step of a tensor: cuts `dim` into `parts` chunks and keeps chunk `index`.
struct Cut {
  int dim = 0;
  int64_t parts = 1;
  int64_t index = 0;
};

// Returns the box of a tensor of this shape that remains after all cuts. Each cut is applied to the
// result of the previous cut. Cuts of tensor parallelism must come before those of FSDP, as in
// DTensor's placements (_StridedShard, Shard).
Box cut_box(std::span<const int64_t> shape, std::span<const Cut> cuts);

}  // namespace am::mesh
