#include "am/data/tokenizer/bpe_merges.h"

#include <array>
#include <queue>
#include <tuple>

namespace am::data {
namespace {

// Maximum number of symbols of a short word. In a short word, scanning all pairs at each merge is
// faster than a heap.
constexpr size_t kShortWord = 32;

// A possible merge of the token at index `left` with the next token. A candidate is stale if one of
// these two tokens has changed since the candidate was created.
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

void BpeMerges::add(uint32_t left, uint32_t right, uint32_t merged, std::optional<uint32_t> rank) {
  rules_[(uint64_t{left} << 32) | right] = {rank.value_or(count_), merged};
  ++count_;
}

void BpeMerges::apply(std::vector<Symbol>& word) const {
  if (word.size() <= kShortWord) {
    apply_short(word);
  } else {
    apply_long(word);
  }
}

void BpeMerges::apply(std::vector<uint32_t>& ids) const {
  std::vector<Symbol> word;
  for (const uint32_t id : ids) word.push_back({id, 1});
  apply(word);
  ids.clear();
  for (const Symbol& symbol : word) ids.push_back(symbol.id);
}

// Merges a short word. `rules[i]` is the rule for the tokens i and i + 1, or null. Because `rules`
// is kept, a merge looks up only the two pairs that it creates.
void BpeMerges::apply_short(std::vector<Symbol>& word) const {
  if (word.size() < 2) return;
  std::array<const Rule*, kShortWord> rules;
  size_t pairs = word.size() - 1;
  for (size_t i = 0; i < pairs; ++i) rules[i] = find(word[i].id, word[i + 1].id);
  while (pairs > 0) {
    const Rule* best = nullptr;
    size_t at = 0;
    for (size_t i = 0; i < pairs; ++i) {
      if (rules[i] != nullptr && (best == nullptr || rules[i]->rank < best->rank)) {
        best = rules[i];
        at = i;
      }
    }
    if (best == nullptr) break;
    word[at] = {best->merged, word[at].size + word[at + 1].size};
    for (size_t i = at + 1; i < pairs; ++i) {
      word[i] = word[i + 1];
      rules[i - 1] = rules[i];
    }
    --pairs;
    if (at > 0) rules[at - 1] = find(word[at - 1].id, word[at].id);
    if (at < pairs) rules[at] = find(word[at].id, word[at + 1].id);
  }
  word.resize(pairs + 1);
}

// Merges a long word. The tokens form a linked list; a merge removes the right token of its pair
// from the list. The heap contains every pair that matched a rule when the pair arose. Stale
// candidates are skipped when they are popped.
void BpeMerges::apply_long(std::vector<Symbol>& word) const {
  std::vector<size_t> next(word.size());
  std::vector<size_t> previous(word.size());
  std::vector<char> gone(word.size(), 0);
  std::priority_queue<Candidate> heap;
  const auto consider = [&](size_t left) {
    if (left == kNone || next[left] == kNone) return;
    const size_t right = next[left];
    if (const Rule* rule = find(word[left].id, word[right].id)) {
      heap.push({rule->rank, left, word[left].id, word[right].id, rule->merged});
    }
  };
  for (size_t i = 0; i < word.size(); ++i) {
    previous[i] = i == 0 ? kNone : i - 1;
    next[i] = i + 1 == word.size() ? kNone : i + 1;
  }
  for (size_t i = 0; i < word.size(); ++i) consider(i);
  while (!heap.empty()) {
    const Candidate top = heap.top();
    heap.pop();
    if (gone[top.left] || word[top.left].id != top.left_id) continue;
    const size_t right = next[top.left];
    if (right == kNone || word[right].id != top.right_id) continue;
    word[top.left] = {top.merged, word[top.left].size + word[right].size};
    gone[right] = 1;
    next[top.left] = next[right];
    if (next[right] != kNone) previous[next[right]] = top.left;
    consider(previous[top.left]);
    consider(top.left);
  }
  size_t count = 0;
  for (size_t i = 0; i < word.size(); ++i) {
    if (!gone[i]) word[count++] = word[i];
  }
  word.resize(count);
}

}  // namespace am::data
