// PARAM[0:4, :8]: a slice of a tensor, in Python's notation.
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

// `3`, `2:5`, `:8`, `-4:` or `:`. A negative index counts from the end.
struct SliceItem {
  bool is_index = false;
  std::optional<int64_t> begin;  // or the index, if is_index
  std::optional<int64_t> end;
};

struct Subscript {
  std::string name;
  std::vector<SliceItem> items;
};

// Splits a name from the slice in its brackets. Throws Error(kUsage) if the brackets hold anything
// else.
Subscript parse_subscript(std::string_view text);

struct Selection {
  mesh::Box box;  // in the tensor's index space
  Shape shape;    // of the result: without dims selected by an index
};

// Ranges are clipped to the dim as in Python; dims without an item are selected whole. Throws
// Error(kUsage) for more items than dims and for an index outside of its dim.
Selection select(const std::vector<SliceItem>& items, const Shape& shape);

}  // namespace am::inspect
