// Byte-pair merging on token ids, the core of a BPE tokenizer. A word is a list of tokens that may
// merge with each other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "am/data/tokenizer/flat_table.h"

namespace am::data {

// A token of a word during merging: its id, and the number of bytes that it covers.
struct Symbol {
  uint32_t id = 0;
  uint32_t size = 0;
};

class BpeMerges {
 public:
  // Adds a rule that merges the ids `left` and `right` into `merged`. Rules of lower rank have
  // priority. Without `rank`, the rank is the number of earlier calls of add(). A second rule for a
  // pair replaces the first.
  void add(uint32_t left, uint32_t right, uint32_t merged,
           std::optional<uint32_t> rank = std::nullopt);

  // Merges a word in place: repeatedly merges the pair whose rule has the lowest rank, at its
  // leftmost occurrence. Needs O(n log n) time for n symbols.
  void apply(std::vector<Symbol>& word) const;
  // Merges a word that consists of ids only, in place.
  void apply(std::vector<uint32_t>& ids) const;

 private:
  struct Rule {
    uint32_t rank;
    uint32_t merged;
  };
  const Rule* find(uint32_t left, uint32_t right) const {
    return rules_.find((uint64_t{left} << 32) | right);
  }
  void apply_short(std::vector<Symbol>& word) const;
  void apply_long(std::vector<Symbol>& word) const;

  FlatTable<Rule> rules_;
  uint32_t count_ = 0;
};

}  // namespace am::data
