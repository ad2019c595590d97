// Computes a fingerprint of a token source from a sample of its tokens, to check that other ranks,
// or an earlier run, read the same tokens.
//
//   fingerprint(*source);      // "9f86d081884c7d65"
#pragma once

#include <cstdint>
#include <string>

#include "am/data/token_source.h"

namespace am::data {

// Returns a hash of the number of tokens and of 64 runs of 32 consecutive tokens, evenly spaced
// from the first to the last token. The hash does not depend on the parallel layout, on seq_len, or
// on how the tokens are stored. Differences between sources outside the hashed runs are not
// detected. Throws the errors of TokenSource::read().
std::string fingerprint(const TokenSource& source);
// Returns the hash of the first `size` tokens, as if the source ended after them.
std::string fingerprint(const TokenSource& source, int64_t size);

}  // namespace am::data
