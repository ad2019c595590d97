#include "am/base/rank_runs.h"

#include <cstddef>

#include "am/base/json_integer.h"

namespace am {
namespace {

constexpr int64_t kMostRanks = int64_t{1} << 24;

}  // namespace

Json rank_runs(std::span<const int64_t> ranks) {
  Json runs = Json::array();
  for (size_t first = 0; first < ranks.size();) {
    size_t end = first + 1;
    const int64_t stride = end < ranks.size() ? ranks[end] - ranks[first] : 1;
    while (end < ranks.size() && ranks[end] - ranks[end - 1] == stride) ++end;
    // A run of two ranks that are not adjacent is shortened to one rank, because the second may
    // begin a longer run.
    if (end == first + 2 && stride != 1) --end;
    const bool one = end == first + 1;
    runs.push_back({ranks[first], one ? 1 : stride, static_cast<int64_t>(end - first)});
    first = end;
  }
  return runs;
}

std::vector<int64_t> ranks_in_runs(const Json& runs) {
  std::vector<int64_t> ranks;
  try {
    for (const Json& run : runs) {
      const int64_t first = integer_of(run.at(0));
      const int64_t stride = integer_of(run.at(1));
      const int64_t count = integer_of(run.at(2));
      const bool sane = first >= 0 && first <= kMostRanks && count >= 1 && count <= kMostRanks &&
                        stride >= -kMostRanks && stride <= kMostRanks;
      if (!sane || static_cast<int64_t>(ranks.size()) + count > kMostRanks) return {};
      for (int64_t i = 0; i < count; ++i) ranks.push_back(first + i * stride);
    }
  } catch (const Json::exception&) {
    return {};
  }
  return ranks;
}

}  // namespace am
