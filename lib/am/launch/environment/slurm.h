// Slurm's two compressed lists, as far as a launcher needs them.
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

// The first host of a host list; each bracket gives its first number. Nothing when it does not
// parse.
std::optional<std::string> first_slurm_host(std::string_view list);
// The number of tasks on each node; nothing when it does not parse.
std::optional<std::vector<int64_t>> slurm_tasks_per_node(std::string_view text);

}  // namespace am::launch
