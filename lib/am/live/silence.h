// Descriptions of ranks that do not answer.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "am/live/questions.h"

namespace am::live {

// With more ranks than this, ranks in the same state share a row.
inline constexpr size_t kListedRanks = 16;

// Returns "does not answer", "its process is stopped"; for several ranks "do not answer", ..
std::string silence_text(const Silent& silent, bool one = true);
// Returns "rank 3: does not answer\n", one line for all ranks that are silent in the same way.
std::string silence_lines(const std::map<int64_t, Silent>& silent);

}  // namespace am::live
