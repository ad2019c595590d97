// Byte-pair merging on token ids: the core of a BPE tokenizer.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

namespace am::data {

class BpeMerges {
 public:
  // Adds a rule that merges the ids `left` and `right` into `merged`. Rules added earlier have
  // priority. A second rule for a pair replaces the first, with the later rule's priority.
  void add(uint32_t left, uint32_t right, uint32_t merged);

  // Merges `ids` in place: repeatedly merges the pair whose rule was added first, at its leftmost
  // occurrence. Needs O(n log n) time.
  void apply(std::vector<uint32_t>& ids) const;

 private:
  struct Rule {
    uint32_t rank;
    uint32_t merged;
  };
  const Rule* find(uint32_t left, uint32_t right) const;
  void apply_short(std::vector<uint32_t>& ids) const;
  void apply_long(std::vector<uint32_t>& ids) const;

  std::unordered_map<uint64_t, Rule> rules_;
  uint32_t count_ = 0;
};

}  // namespace am::data
