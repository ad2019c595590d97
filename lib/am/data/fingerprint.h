// Computes a fingerprint of a token source from a sample of its tokens, to check that other ranks,
// or an earlier run, read the same tokens.
//
//   fingerprint(*source);      // "9f86d081884c7d65"
#pragma once

#include <string>

#include "am/data/token_source.h"

namespace am::data {

// Returns a hash of the number of tokens and of 64 short pieces from the first to the last. It does
// not depend on the layout, on seq_len, or on how the tokens are stored. Differences outside of
// these pieces go unnoticed. Throws what read() throws.
std::string fingerprint(const TokenSource& source);

}  // namespace am::data
