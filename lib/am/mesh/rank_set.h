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

// Returns the selected ranks in ascending order; nullopt, which means all ranks, for no words and
// for "all". A word is a list of ranks, or NAME=LIST with the name of a group (kGroupNames) and a
// list of indices in this group. A rank is selected if at least one list of ranks contains it (or
// there is no such list), and if it satisfies all words NAME=LIST. Lists consist of numbers and of
// ranges such as 0-3. Throws Error(kUsage) for other words, and if no rank is selected.
std::optional<std::vector<int64_t>> select_ranks(const MeshLayout& mesh,
                                                 const std::vector<std::string>& words);

}  // namespace am::mesh
