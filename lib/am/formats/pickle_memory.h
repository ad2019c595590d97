// The memory that stores a pickle's values. pickle_reader.cpp creates values in this memory, and
// pickle.cpp reads them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "am/formats/pickle.h"

namespace am::formats {

// The array of values of a tuple, list, dict, object or other container. `items` has space for
// `capacity` values.
struct PickleNode {
  PickleValue* items = nullptr;
  uint32_t count = 0;
  uint32_t capacity = 0;
};

// Indices of an object's global, arguments and state in PickleNode::items. The object's contents()
// begin at index kObjectItems.
inline constexpr size_t kGlobalItem = 0;
inline constexpr size_t kArgumentsItem = 1;
inline constexpr size_t kStateItem = 2;
inline constexpr uint32_t kObjectItems = 3;

// Owns all values and nodes of a pickle. Nodes never move; the values of a node move only when
// extend() needs more space. The arena frees everything together, so deeply nested values are freed
// without recursion.
struct Pickle::Arena {
  static constexpr size_t kBlock = size_t{1} << 14;

  PickleNode* node(std::span<const PickleValue> items) {
    PickleNode& node = nodes.emplace_back();
    extend(node, items);
    return &node;
  }

  void extend(PickleNode& node, std::span<const PickleValue> items) {
    if (items.empty()) return;
    const size_t count = node.count + items.size();
    if (count > node.capacity) grow(node, count);
    std::copy(items.begin(), items.end(), node.items + node.count);
    node.count = static_cast<uint32_t>(count);
  }

  void grow(PickleNode& node, size_t count) {
    PickleValue* const end = node.items == nullptr ? nullptr : node.items + node.capacity;
    if (end != nullptr && end == next && static_cast<size_t>(limit - node.items) >= count) {
      next = node.items + count;
      node.capacity = static_cast<uint32_t>(count);
      return;
    }
    // The first allocation has no spare capacity, because most nodes are never extended.
    const size_t capacity = node.items == nullptr ? count : std::max(count, size_t{2} * node.count);
    PickleValue* const items = take(capacity);
    std::copy(node.items, node.items + node.count, items);
    node.items = items;
    node.capacity = static_cast<uint32_t>(capacity);
  }

  PickleValue* take(size_t count) {
    if (count > kBlock / 4) {
      blocks.push_back(std::make_unique<PickleValue[]>(count));
      return blocks.back().get();
    }
    if (static_cast<size_t>(limit - next) < count) {
      blocks.push_back(std::make_unique<PickleValue[]>(kBlock));
      next = blocks.back().get();
      limit = next + kBlock;
    }
    return std::exchange(next, next + count);
  }

  std::deque<PickleNode> nodes;
  std::vector<std::unique_ptr<PickleValue[]>> blocks;
  PickleValue* next = nullptr;
  PickleValue* limit = nullptr;
};

}  // namespace am::formats
