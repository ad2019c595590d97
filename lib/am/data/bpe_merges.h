// Byte-pair merging: the heart of a BPE tokenizer, on ids.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

namespace am::data {

class BpeMerges {
 public:
  // The pair (left, right) becomes `merged`; rules that were added earlier go first. The first of
  // two rules for one pair stands.
  void add(uint32_t left, uint32_t right, uint32_t merged);

  // Merges in place: always the pair whose rule comes first, the leftmost of several; O(n log n).
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
