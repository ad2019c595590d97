// Lists of ranks as people read them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace am {

// {8, 0, 1, 2, 3} -> "0-3, 8". Beyond `most` parts (0: no limit) the rest is counted.
std::string rank_list(std::vector<int64_t> ranks, size_t most = 0);
// "rank 3"; "ranks 0-3, 8"; at most 16 parts.
std::string ranks_text(const std::vector<int64_t>& ranks);

}  // namespace am
