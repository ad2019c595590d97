// Finds the memo indices that a pickle reads (opcodes BINGET and LONG_BINGET), in one pass that
// creates no values. The memo is the table in which a pickle stores values to use them again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_set>

namespace am::formats {

using RecalledMemos = std::unordered_set<uint64_t>;

// Returns the memo indices that the pickle reads. PickleReader keeps only the values at these
// indices in its memo: Python's pickler stores nearly every value in the memo, but reads few of
// them back, for example a few thousand of half a million in a large distributed checkpoint. Skips
// unknown opcodes, because PickleReader reports them.
RecalledMemos recalled_memos(std::span<const std::byte> bytes);

}  // namespace am::formats
