// Formats lists of ranks for people, and finds ranks with a constant stride.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace am {

// Returns a list of ranks as text, for example "0-3, 8" for {8, 0, 1, 2, 3}. After `most` ranges or
// single ranks, the text ends with the number of the remaining ranks, for example "0-3, 8 and 12
// more". If `most` is 0, the text contains all ranks.
std::string rank_list(std::vector<int64_t> ranks, size_t most = 0);
// Returns rank_list() after a word, for example "rank 3" or "ranks 0-3, 8", with at most 16 ranges
// or single ranks.
std::string ranks_text(const std::vector<int64_t>& ranks);

// The `count` ranks first, first + stride, first + 2 stride, ...
struct RankRange {
  int64_t first = 0;
  int64_t stride = 1;
  int64_t count = 0;
  bool operator==(const RankRange&) const = default;
};
// Returns `ranks` as a range, with stride 1 for a single rank. Returns nothing if `ranks` is empty
// or not an ascending arithmetic sequence.
std::optional<RankRange> rank_range(const std::vector<int64_t>& ranks);

}  // namespace am
