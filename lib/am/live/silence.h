// Describes ranks that do not answer.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "am/live/questions.h"

namespace am::live {

// Largest number of ranks that a table lists one per row. In a table of more ranks, those in the
// same state share a row, or only some ranks are listed.
inline constexpr size_t kListedRanks = 16;

// Returns a phrase about a rank that does not answer: for example "does not answer" or "its process
// is stopped". If `one` is false, the phrase is about several ranks, for example "do not answer".
std::string silence_text(const Silent& silent, bool one = true);
// Returns one line for each group of ranks with the same silence_text(), for example "rank 3: does
// not answer\n".
std::string silence_lines(const std::map<int64_t, Silent>& silent);

}  // namespace am::live
