// Selects ranks of a mesh by their numbers or by their coordinates.
//
//   const MeshLayout mesh({.dp_shard = 4, .tp = 2});
//   select_ranks(mesh, {"tp=0", "dp=1,3"});   // {2, 6}
//   select_ranks(mesh, {"0-2", "7"});         // {0, 1, 2, 7}
//   select_ranks(mesh, {"all"});              // nullopt
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "am/mesh/layout.h"

namespace am::mesh {

// Returns the selected ranks in ascending order. Returns nullopt, which means all ranks, if `words`
// is empty or contains only "all". Any other word is LIST, a list of ranks, or NAME=LIST, the name
// of a group (kGroupNames) and a list of indices in this group. A list consists of numbers and of
// ranges such as 0-3, separated by commas. A rank is selected if it is in at least one list of
// ranks, or no list of ranks is given, and if its indices are in the lists of all words NAME=LIST.
// Throws Error(kUsage) for any other word, for a number that is out of range, and if no rank is
// selected.
std::optional<std::vector<int64_t>> select_ranks(const MeshLayout& mesh,
                                                 const std::vector<std::string>& words);

}  // namespace am::mesh
