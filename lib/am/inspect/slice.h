// Parses slices of tensors in Python's notation, for example PARAM[0:4, :8].
//
//   const Subscript subscript = parse_subscript("model.norm.weight[-4:]");
//   const Selection selection = select(subscript.items, {32});   // offset 28, shape 4
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "am/base/shape.h"
#include "am/mesh/shard.h"

namespace am::inspect {

// One item of a slice: an index, for example `3`, or a range, for example `2:5`, `:8`, `-4:` or
// `:`. A negative number counts from the end of the dim.
struct SliceItem {
  bool is_index = false;
  std::optional<int64_t> begin;  // first index of the range; the index itself if is_index
  std::optional<int64_t> end;    // index after the range; absent: the range ends with the dim
};

struct Subscript {
  std::string name;
  std::vector<SliceItem> items;
};

// Splits an operand into the name of a tensor and the slice in brackets after it. Throws
// Error(kUsage) if the brackets contain no valid slice.
Subscript parse_subscript(std::string_view text);

// The elements of a tensor that a slice selects, as a box of the tensor.
struct Selection {
  mesh::Box box;  // ranges of indices in the tensor
  Shape shape;    // shape of the result, without the dims for which the slice has an index
};

// Returns the elements that the items select from a tensor of this shape. A range is clipped to its
// dim as in Python, and a dim without an item is selected entirely. Throws Error(kUsage) if there
// are more items than dims, or if an index is out of range.
Selection select(const std::vector<SliceItem>& items, const Shape& shape);

}  // namespace am::inspect
