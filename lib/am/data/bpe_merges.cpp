#include "am/data/bpe_merges.h"

#include <cstddef>
#include <queue>
#include <tuple>

namespace am::data {
namespace {

// Maximum number of ids of a word for which scanning the whole word at each merge is faster than a
// heap.
constexpr size_t kShortWord = 32;

uint64_t pair_key(uint32_t left, uint32_t right) { return (uint64_t{left} << 32) | right; }

// A possible merge of the token at `left` with the next token. A candidate is stale if one of the
// two tokens has changed since the candidate was created.
struct Candidate {
  uint32_t rank;
  size_t left;
  uint32_t left_id;
  uint32_t right_id;
  uint32_t merged;

  // Compares in reverse, because std::priority_queue returns the largest element.
  bool operator<(const Candidate& other) const {
    return std::tie(rank, left) > std::tie(other.rank, other.left);
  }
};

constexpr size_t kNone = static_cast<size_t>(-1);

}  // namespace

void BpeMerges::add(uint32_t left, uint32_t right, uint32_t merged) {
  rules_[pair_key(left, right)] = {count_++, merged};
}

const BpeMerges::Rule* BpeMerges::find(uint32_t left, uint32_t right) const {
  const auto found = rules_.find(pair_key(left, right));
  return found == rules_.end() ? nullptr : &found->second;
}

void BpeMerges::apply(std::vector<uint32_t>& ids) const {
  if (ids.size() <= kShortWord) {
    apply_short(ids);
  } else {
    apply_long(ids);
  }
}

void BpeMerges::apply_short(std::vector<uint32_t>& ids) const {
  while (ids.size() > 1) {
    const Rule* best = nullptr;
    size_t at = 0;
    for (size_t i = 0; i + 1 < ids.size(); ++i) {
      const Rule* rule = find(ids[i], ids[i + 1]);
      if (rule != nullptr && (best == nullptr || rule->rank < best->rank)) {
        best = rule;
        at = i;
      }
    }
    if (best == nullptr) return;
    ids[at] = best->merged;
    ids.erase(ids.begin() + static_cast<std::ptrdiff_t>(at) + 1);
  }
}

// Merges a long word. The tokens form a linked list, from which a merge removes its right token.
// The heap contains every pair that matched a rule when the pair arose; stale pairs are skipped
// when they are popped.
void BpeMerges::apply_long(std::vector<uint32_t>& ids) const {
  std::vector<size_t> next(ids.size());
  std::vector<size_t> previous(ids.size());
  std::vector<char> gone(ids.size(), 0);
  std::priority_queue<Candidate> heap;
  const auto consider = [&](size_t left) {
    if (left == kNone || next[left] == kNone) return;
    const size_t right = next[left];
    if (const Rule* rule = find(ids[left], ids[right])) {
      heap.push({rule->rank, left, ids[left], ids[right], rule->merged});
    }
  };
  for (size_t i = 0; i < ids.size(); ++i) {
    previous[i] = i == 0 ? kNone : i - 1;
    next[i] = i + 1 == ids.size() ? kNone : i + 1;
  }
  for (size_t i = 0; i < ids.size(); ++i) consider(i);
  while (!heap.empty()) {
    const Candidate top = heap.top();
    heap.pop();
    if (gone[top.left] || ids[top.left] != top.left_id) continue;
    const size_t right = next[top.left];
    if (right == kNone || ids[right] != top.right_id) continue;
    ids[top.left] = top.merged;
    gone[right] = 1;
    next[top.left] = next[right];
    if (next[right] != kNone) previous[next[right]] = top.left;
    consider(previous[top.left]);
    consider(top.left);
  }
  size_t count = 0;
  for (size_t i = 0; i < ids.size(); ++i) {
    if (!gone[i]) ids[count++] = ids[i];
  }
  ids.resize(count);
}

}  // namespace am::data
