#include "am/base/ranks.h"

#include <algorithm>

#include "am/base/text.h"

namespace am {

std::string rank_list(std::vector<int64_t> ranks, size_t most) {
  std::sort(ranks.begin(), ranks.end());
  std::vector<std::string> parts;
  for (size_t i = 0; i < ranks.size();) {
    size_t end = i + 1;
    while (end < ranks.size() && ranks[end] == ranks[end - 1] + 1) ++end;
    if (most > 0 && parts.size() == most) {
      return cat(join(parts, ", "), " and ", ranks.size() - i, " more");
    }
    if (end - i > 2) {
      parts.push_back(cat(ranks[i], "-", ranks[end - 1]));
    } else {
      parts.push_back(std::to_string(ranks[i]));
      end = i + 1;
    }
    i = end;
  }
  return join(parts, ", ");
}

std::string ranks_text(const std::vector<int64_t>& ranks) {
  return cat(ranks.size() == 1 ? "rank " : "ranks ", rank_list(ranks, 16));
}

std::optional<RankRange> rank_range(const std::vector<int64_t>& ranks) {
  if (ranks.empty()) return std::nullopt;
  const int64_t stride = ranks.size() > 1 ? ranks[1] - ranks[0] : 1;
  if (stride < 1) return std::nullopt;
  for (size_t i = 1; i < ranks.size(); ++i) {
    if (ranks[i] - ranks[i - 1] != stride) return std::nullopt;
  }
  return RankRange{ranks.front(), stride, static_cast<int64_t>(ranks.size())};
}

}  // namespace am
