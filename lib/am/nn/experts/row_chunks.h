// Rows of experts in parts, so that a rank which gets many more than others needs little more
// memory than they: what lies beyond twice the rows that even routing gives runs as checkpointed
// segments of as many rows as even routing gives. So of the surplus rows themselves are kept, and
// gates and ups of one part at a time are made again in backward.
#pragma once

#include <cstdint>
#include <vector>

namespace am::nn {

// Of each part, of which each expert's rows follow those in the parts before: how many rows of
// each. Of the first part as many as there are, up to 2 `even` of all experts together, of the
// others up to `even`. {3, 0, 4} with even = 2: {3, 0, 1}, {0, 0, 2}, {0, 0, 1}. With even = 0
// nothing says how many are many: one part.
std::vector<std::vector<int64_t>> row_chunks(const std::vector<int64_t>& rows, int64_t even);

}  // namespace am::nn
