// Finds the memo indices that a pickle reads (opcodes BINGET and LONG_BINGET), in one pass that
// creates no values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_set>

namespace am::formats {

using RecalledMemos = std::unordered_set<uint64_t>;

// Returns the memo indices that the pickle reads, so that the reader stores only these values.
// Python's pickler memoizes nearly every value, but reads few of them back: in a large distributed
// checkpoint, a few thousand of half a million. Skips unknown opcodes, at which the reader fails
// anyway.
RecalledMemos recalled_memos(std::span<const std::byte> bytes);

}  // namespace am::formats
