// Parses Slurm's compressed lists of hosts and of tasks per node.
//
//   first_slurm_host("node[01-03,7]");   // "node01"
//   slurm_tasks_per_node("2(x3),1");     // {2, 2, 2, 1}
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace am::launch {

// Returns the first host of a list of hosts. A bracket such as [01-03,7] is replaced by its first
// number. Returns nothing if the text cannot be parsed.
std::optional<std::string> first_slurm_host(std::string_view list);
// Returns the number of tasks on each node; 2(x3) stands for three nodes with two tasks each.
// Returns nothing if the text cannot be parsed.
std::optional<std::vector<int64_t>> slurm_tasks_per_node(std::string_view text);

}  // namespace am::launch
