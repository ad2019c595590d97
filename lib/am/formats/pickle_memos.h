// Which memos a pickle recalls, found in one pass that makes no values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_set>

namespace am::formats {

using RecalledMemos = std::unordered_set<uint64_t>;

// Python's writer remembers nearly every value and recalls few: of the half million parts of a
// large distributed checkpoint some thousand. Behind an opcode that is not known anything may
// follow, at which reading ends.
RecalledMemos recalled_memos(std::span<const std::byte> bytes);

}  // namespace am::formats
