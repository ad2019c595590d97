// Placements and the one piece of arithmetic that cuts tensors: torch.chunk.
//
// Planner and runtime call these same functions, so a predicted shard is the shard.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "am/base/shape.h"

namespace am::mesh {

// How a tensor lies along one mesh axis; the names of PyTorch's DTensor.
struct Placement {
  enum class Kind { kReplicate, kShard, kPartial };
  Kind kind = Kind::kReplicate;
  int dim = 0;  // of kShard

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

// Length of the full pieces when `size` is cut in `parts`: ceil(size / parts). FSDP pads every
// piece to it.
int64_t chunk_length(int64_t size, int64_t parts);
// The piece of `index` in torch.chunk(size, parts): trailing pieces may be shorter or empty, and an
// empty one has offset == size. 5 in 4: 2, 2, 1, 0.
Extent chunk(int64_t size, int64_t parts, int64_t index);

// A part of one dim that is cut by itself: one slice of a fused matrix, or all of the dim. So many
// neighbouring ranks hold the same piece: key heads that are fewer than the ranks.
struct DimSlice {
  Extent extent;
  int64_t copies = 1;
  bool operator==(const DimSlice&) const = default;
};
// The piece of the `index`th of `ranks`, which `copies` divides.
Extent piece_of(const DimSlice& slice, int64_t ranks, int64_t index);

// A box in a tensor's global index space.
struct Box {
  Shape offset;
  Shape shape;

  int64_t numel() const { return am::numel(shape); }
  static Box whole(std::span<const int64_t> shape);
  bool operator==(const Box&) const = default;
};

// The common part, or nothing when the boxes do not meet.
std::optional<Box> intersect(const Box& a, const Box& b);

// One cut: dim `dim` in `parts`, of which this is number `index`.
struct Cut {
  int dim = 0;
  int64_t parts = 1;
  int64_t index = 0;
};

// What is left of `shape` after the cuts, each applied to the result of the one before: tensor
// parallel first, FSDP after it, which is DTensor's (_StridedShard, Shard) order.
Box cut_box(std::span<const int64_t> shape, std::span<const Cut> cuts);

}  // namespace am::mesh
