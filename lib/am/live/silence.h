// Describes ranks that do not answer.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "am/live/questions.h"

namespace am::live {

// In a job of more ranks than this, ranks in the same state share a row of a table.
inline constexpr size_t kListedRanks = 16;

// Returns a description of a rank that does not answer, for example "does not answer" or "its
// process is stopped"; of several ranks if `one` is false, for example "do not answer".
std::string silence_text(const Silent& silent, bool one = true);
// Returns a line for all ranks with the same description, for example "rank 3: does not answer\n".
std::string silence_lines(const std::map<int64_t, Silent>& silent);

}  // namespace am::live
