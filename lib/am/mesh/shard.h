// Placements, and the chunking (as by torch.chunk) by which every tensor is cut.
//
// Planner and runtime call the same functions, so predicted shards equal the real ones.
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
  int dim = 0;  // kShard only

  static Placement replicate() { return {}; }
  static Placement shard(int dim) { return {Kind::kShard, dim}; }
  static Placement partial() { return {Kind::kPartial, 0}; }
  bool is_shard() const { return kind == Kind::kShard; }
  bool operator==(const Placement&) const = default;
};

// "Replicate", "Shard(0)", "Partial(sum)"
std::string to_string(const Placement& placement);

struct Extent {
  int64_t offset = 0;
  int64_t size = 0;
  bool operator==(const Extent&) const = default;
};

// Length of a full piece when `size` is cut into `parts`: ceil(size / parts). FSDP pads every piece
// to this length.
int64_t chunk_length(int64_t size, int64_t parts);
// Returns piece `index` of torch.chunk(size, parts). Trailing pieces may be shorter or empty; an
// empty piece has offset == size. Example: 5 in 4 parts gives 2, 2, 1, 0.
Extent chunk(int64_t size, int64_t parts, int64_t index);

// A part of one dim that is cut separately: one slice of a fused matrix, or the whole dim. Each
// piece is held by `copies` neighbouring ranks (KV heads that are fewer than the ranks).
struct DimSlice {
  Extent extent;
  int64_t copies = 1;
  bool operator==(const DimSlice&) const = default;
};
// Returns the piece of rank `index` of `ranks`. `copies` must divide `ranks`.
Extent piece_of(const DimSlice& slice, int64_t ranks, int64_t index);

// A box in a tensor's global index space.
struct Box {
  Shape offset;
  Shape shape;

  int64_t numel() const { return am::numel(shape); }
  static Box whole(std::span<const int64_t> shape);
  bool operator==(const Box&) const = default;
};

// Returns the intersection, or nothing if the boxes are disjoint.
std::optional<Box> intersect(const Box& a, const Box& b);

// One cut: `dim` is cut into `parts`, and piece `index` is kept.
struct Cut {
  int dim = 0;
  int64_t parts = 1;
  int64_t index = 0;
};

// Returns the part of `shape` that remains after the cuts, each applied to the result of the
// previous one: tensor parallel first, then FSDP, which is DTensor's (_StridedShard, Shard) order.
Box cut_box(std::span<const int64_t> shape, std::span<const Cut> cuts);

}  // namespace am::mesh
