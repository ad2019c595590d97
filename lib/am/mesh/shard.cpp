#include "am/mesh/shard.h"

#include <algorithm>

#include "am/base/error.h"
#include "am/base/text.h"

namespace am::mesh {

std::string to_string(const Placement& placement) {
  switch (placement.kind) {
    case Placement::Kind::kReplicate:
      return "Replicate";
    case Placement::Kind::kShard:
      return cat("Shard(", placement.dim, ")");
    case Placement::Kind::kPartial:
      return "Partial(sum)";
  }
  return {};
}

int64_t chunk_length(int64_t size, int64_t parts) {
  AM_ASSERT(size >= 0 && parts >= 1, cat("dim size ", size, ", number of parts ", parts));
  return size / parts + (size % parts != 0 ? 1 : 0);
}

Extent chunk(int64_t size, int64_t parts, int64_t index) {
  AM_ASSERT(index >= 0 && index < parts, cat("piece index ", index, ", number of pieces ", parts));
  const int64_t length = chunk_length(size, parts);
  const int64_t begin = std::min(size, index * length);
  const int64_t end = std::min(size, begin + length);
  return {begin, end - begin};
}

Extent piece_of(const DimSlice& slice, int64_t ranks, int64_t index) {
  AM_ASSERT(slice.copies >= 1 && ranks % slice.copies == 0, "copies do not divide the ranks");
  const Extent piece = chunk(slice.extent.size, ranks / slice.copies, index / slice.copies);
  return {slice.extent.offset + piece.offset, piece.size};
}

Box Box::whole(std::span<const int64_t> shape) {
  return {Shape(shape.size(), 0), Shape(shape.begin(), shape.end())};
}

std::optional<Box> intersect(const Box& a, const Box& b) {
  AM_ASSERT(a.shape.size() == b.shape.size(), "boxes with different numbers of dims");
  Box common;
  for (size_t dim = 0; dim < a.shape.size(); ++dim) {
    const int64_t begin = std::max(a.offset[dim], b.offset[dim]);
    const int64_t end = std::min(a.offset[dim] + a.shape[dim], b.offset[dim] + b.shape[dim]);
    if (begin >= end) return std::nullopt;
    common.offset.push_back(begin);
    common.shape.push_back(end - begin);
  }
  return common;
}

Box cut_box(std::span<const int64_t> shape, std::span<const Cut> cuts) {
  Box box = Box::whole(shape);
  for (const Cut& cut : cuts) {
    AM_ASSERT(cut.dim >= 0 && static_cast<size_t>(cut.dim) < box.shape.size(),
              cat("no dim ", cut.dim, " in ", box.shape.size(), " dims"));
    const auto dim = static_cast<size_t>(cut.dim);
    const Extent piece = chunk(box.shape[dim], cut.parts, cut.index);
    box.offset[dim] += piece.offset;
    box.shape[dim] = piece.size;
  }
  return box;
}

}  // namespace am::mesh
