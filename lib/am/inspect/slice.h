// PARAM[0:4, :8]: a part of a tensor, written as in Python.
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
  std::optional<int64_t> begin;  // the index of an `is_index`
  std::optional<int64_t> end;
};

struct Subscript {
  std::string name;
  std::vector<SliceItem> items;
};

// The name, and what stands in its brackets. Throws Error(kUsage) for brackets that say something
// else.
Subscript parse_subscript(std::string_view text);

struct Selection {
  mesh::Box box;  // in the tensor's index space
  Shape shape;    // of the result: without the dims that an index picked
};

// Ranges are clipped to the dim as Python does; dims without an item are whole. Throws
// Error(kUsage) for more items than dims and for an index outside of its dim.
Selection select(const std::vector<SliceItem>& items, const Shape& shape);

}  // namespace am::inspect
