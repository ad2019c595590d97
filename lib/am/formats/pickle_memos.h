// Finds the memo indices that a pickle recalls, in one pass that creates no values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_set>

namespace am::formats {

using RecalledMemos = std::unordered_set<uint64_t>;

// Returns the recalled indices, so that the reader keeps only their values: Python's pickler
// memoizes nearly every value and recalls few, some thousand of the half million of a large
// distributed checkpoint. Stops at an unknown opcode, where the reader fails anyway.
RecalledMemos recalled_memos(std::span<const std::byte> bytes);

}  // namespace am::formats
