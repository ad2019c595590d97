// Parses a tensor-parallel plan that is a separate TOML text: a table of pattern = style.
//
//   [tp_plan]
//   "model.layers.*.self_attn.q_proj" = "colwise"
//   "model.layers.*.self_attn.o_proj" = "rowwise"
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "am/base/diagnostic.h"

namespace am::config {

struct TpTableEntry {
  std::string pattern;
  std::string style;
  Span where;  // location of the style in its file
};

// Returns the entries in the text's order; the table is at the top level or under [tp_plan]. Errors
// in the text are reported at their location in the text, with `source` as the file name. A text
// without a table is an error "tp.plan" at `where`, the plan's value that names the text. Returns
// an empty list after any error. Styles are checked later, by model/tp_plan.h.
std::vector<TpTableEntry> parse_tp_table(std::string_view text, const std::string& source,
                                         const Span& where, Diagnostics& found);
// Parses a file, as parse_tp_table does; an unreadable file is reported at `where` too.
std::vector<TpTableEntry> load_tp_table(const std::filesystem::path& path, const Span& where,
                                        Diagnostics& found);

}  // namespace am::config
