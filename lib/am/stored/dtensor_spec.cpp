#include "am/stored/dtensor_spec.h"

#include <algorithm>

#include "am/base/text.h"

namespace am::stored {

namespace {

constexpr size_t kMostSpecDims = 64;
constexpr int64_t kMostMeshRanks = int64_t{1} << 32;
constexpr int64_t kMostSpecElements = int64_t{1} << 60;

// Returns whether the number of sizes is at most kMostSpecDims, each size is between `least` and
// `most`, and the product of the sizes that are not zero is at most `most`.
bool product_fits(const Shape& sizes, int64_t least, int64_t most) {
  int64_t product = 1;
  for (const int64_t size : sizes) {
    if (size < least || size > most) return false;
    if (__builtin_mul_overflow(product, std::max<int64_t>(size, 1), &product)) return false;
    if (product > most) return false;
  }
  return sizes.size() <= kMostSpecDims;
}

// Returns the index at which a mesh dim with this split factor must be inserted into `cuts`. `cuts`
// lists the later mesh dims that shard the same tensor dim, in the order applied. The sizes of the
// mesh dims before the index multiply to the split factor. Returns nullopt if there is no matching
// index.
std::optional<size_t> place_among(const std::vector<size_t>& cuts, const DTensorSpec& spec,
                                  int64_t split_factor) {
  int64_t pieces = 1;
  for (size_t place = 0; place <= cuts.size(); ++place) {
    if (pieces == split_factor) return place;
    if (place < cuts.size()) pieces *= spec.sizes[cuts[place]];
  }
  return std::nullopt;
}

bool is_order(const DTensorSpec& spec) {
  std::vector<size_t> axes = spec.order;
  std::sort(axes.begin(), axes.end());
  std::vector<size_t> cut;
  for (size_t axis = 0; axis < spec.axes.size(); ++axis) {
    if (spec.axes[axis].shard) cut.push_back(axis);
  }
  return axes == cut;
}

}  // namespace

std::optional<std::string> put_in_order(DTensorSpec& spec) {
  if (!product_fits(spec.shape, 0, kMostSpecElements))
    return "has a shape with a negative or too large size";
  if (!product_fits(spec.sizes, 1, kMostMeshRanks))
    return "is on a mesh with a zero or too large size";
  if (spec.axes.size() != spec.sizes.size())
    return "does not have a placement for each dim of its mesh";
  const auto dims = static_cast<int64_t>(spec.shape.size());
  for (const AxisPlacement& axis : spec.axes) {
    if (axis.shard && (axis.dim < 0 || axis.dim >= dims)) {
      return cat("is sharded on dim ", axis.dim, ", but has ", dims, dims == 1 ? " dim" : " dims");
    }
  }
  if (!spec.order.empty()) {
    if (!is_order(spec)) return "has a shard_order that does not match its placements";
    return std::nullopt;
  }
  std::vector<std::vector<size_t>> cuts(spec.shape.size());
  for (size_t axis = spec.axes.size(); axis-- > 0;) {
    const AxisPlacement& placement = spec.axes[axis];
    if (!placement.shard) continue;
    std::vector<size_t>& of_dim = cuts[static_cast<size_t>(placement.dim)];
    const auto place = place_among(of_dim, spec, placement.split_factor);
    if (!place) {
      return cat("is a strided shard whose split_factor ", placement.split_factor,
                 " does not match its mesh");
    }
    of_dim.insert(of_dim.begin() + static_cast<std::ptrdiff_t>(*place), axis);
  }
  for (const auto& of_dim : cuts) spec.order.insert(spec.order.end(), of_dim.begin(), of_dim.end());
  return std::nullopt;
}

int64_t ranks_of(const DTensorSpec& spec) { return numel(spec.sizes); }

bool is_on_mesh(const DTensorSpec& spec, const Shape& coordinate) {
  if (coordinate.size() != spec.sizes.size()) return false;
  for (size_t axis = 0; axis < coordinate.size(); ++axis) {
    if (coordinate[axis] < 0 || coordinate[axis] >= spec.sizes[axis]) return false;
  }
  return true;
}

mesh::Box part_at(const DTensorSpec& spec, const Shape& coordinate) {
  std::vector<mesh::Cut> cuts;
  for (const size_t axis : spec.order) {
    cuts.push_back({static_cast<int>(spec.axes[axis].dim), spec.sizes[axis], coordinate[axis]});
  }
  return mesh::cut_box(spec.shape, cuts);
}

}  // namespace am::stored
