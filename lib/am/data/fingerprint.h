// Are these the tokens that another rank reads, or that an earlier run has read? Told from a few of
// them.
//
//   fingerprint(*source)      // "9f86d081884c7d65"
#pragma once

#include <string>

#include "am/data/token_source.h"

namespace am::data {

// A hash of the number of tokens and of 64 short pieces from the first to the last: it does not
// depend on the layout, on seq_len, or on how the tokens are stored. Data that differs elsewhere
// alone is not told apart. Throws what read() throws.
std::string fingerprint(const TokenSource& source);

}  // namespace am::data
