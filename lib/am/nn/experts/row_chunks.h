// Splits the rows of a rank's experts into parts, so that a rank to which more tokens are routed
// than to others needs little more memory. `even` is the number of rows per rank under perfect
// balance. The first 2 * `even` rows form one part, and the further rows form parts of up to
// `even` rows. Each further part is a checkpointed segment that keeps only its input rows and their
// weights: backward recomputes gate and up one part at a time.
#pragma once

#include <cstdint>
#include <vector>

namespace am::nn {

// Returns, for each part, the number of rows of each expert. The rows of one expert may be split
// over several parts. The first part has up to 2 * `even` rows of all experts together, each
// further part up to `even` rows. For example, even = 2 splits {3, 0, 4} into {3, 0, 1}, {0, 0, 2}
// and {0, 0, 1}. With even = 0 (unknown) there is one part.
std::vector<std::vector<int64_t>> row_chunks(const std::vector<int64_t>& rows, int64_t even);

}  // namespace am::nn
