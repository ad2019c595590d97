// Splits expert rows into parts, so that a rank that receives more than its share of routed tokens
// needs little more memory than other ranks. Rows beyond twice the balanced number run in parts of
// the balanced number, each a checkpointed segment that keeps only its input rows: backward
// recomputes gate and up one part at a time.
#pragma once

#include <cstdint>
#include <vector>

namespace am::nn {

// Returns, for each part, the number of rows of each expert. An expert's rows continue from part to
// part. The first part has up to 2 * `even` rows of all experts together, each further part up to
// `even` rows. For example, {3, 0, 4} with even = 2 has the parts {3, 0, 1}, {0, 0, 2}, {0, 0, 1}.
// With even = 0 (unknown) there is one part.
std::vector<std::vector<int64_t>> row_chunks(const std::vector<int64_t>& rows, int64_t even);

}  // namespace am::nn
