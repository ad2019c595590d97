// A map from keys to numbers, stored as a tree, that finds all keys with which a text begins.
//
//   Trie trie;
//   trie.add("ab", 7);
//   trie.for_each_prefix("abc", [](size_t length, uint32_t value) {});    // called once, with 2, 7
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "am/data/tokenizer/flat_table.h"

namespace am::data {

class Trie {
 public:
  // Sets the value of a key, which must not be empty. The value must not be 2^32 - 1.
  void add(std::string_view key, uint32_t value) {
    uint32_t node = 0;
    for (const char c : key) {
      const auto next = static_cast<uint32_t>(values_.size());
      uint32_t& child = children_[edge(node, c)];
      if (child == 0) {
        child = next;
        values_.push_back(kNone);
      }
      node = child;
    }
    values_[node] = value;
  }

  bool empty() const { return values_.size() == 1; }

  // Calls `found(length, value)` for each key with which `text` begins, the shortest first.
  template <typename Found>
  void for_each_prefix(std::string_view text, Found&& found) const {
    uint32_t node = 0;
    for (size_t at = 0; at < text.size(); ++at) {
      const uint32_t* child = children_.find(edge(node, text[at]));
      if (child == nullptr) return;
      node = *child;
      if (values_[node] != kNone) found(at + 1, values_[node]);
    }
  }

  struct Match {
    size_t length = 0;  // 0: no key
    uint32_t value = 0;
  };
  // Returns the length and the value of the longest key with which `text` begins.
  Match longest(std::string_view text) const {
    Match match;
    for_each_prefix(text, [&](size_t length, uint32_t value) { match = {length, value}; });
    return match;
  }

 private:
  static constexpr uint32_t kNone = UINT32_MAX;
  static uint64_t edge(uint32_t node, char c) {
    return (uint64_t{node} << 8) | static_cast<unsigned char>(c);
  }

  FlatTable<uint32_t> children_;
  std::vector<uint32_t> values_ = {kNone};  // by node; node 0 is the root
};

}  // namespace am::data
