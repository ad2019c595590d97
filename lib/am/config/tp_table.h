// A tensor-parallel plan in a file of its own: TOML, a table of pattern = style.
//
//   [tp_plan]
//   "model.layers.*.self_attn.q_proj" = "colwise"
//   "model.layers.*.self_attn.o_proj" = "rowwise"
#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "am/base/diagnostic.h"

namespace am::config {

// Patterns and styles in the file's order; the table stands at the top level or under [tp_plan].
// What is wrong inside the file is reported there; a file that cannot be read, or has no table, at
// `where`: the plan's value that named it. Empty when anything is wrong. Whether a style exists is
// for model/tp_plan.h.
std::vector<std::pair<std::string, std::string>> load_tp_table(const std::filesystem::path& path,
                                                               const Span& where,
                                                               Diagnostics& found);

}  // namespace am::config
