// Parses a TP plan that is a separate TOML text: a table of pattern = style.
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

// Returns the entries in the order of the text; the table is at the top level or under [tp_plan].
// Errors in the text are reported at their location in the text, with `source` as the file name. A
// text without entries is an error "tp.plan" at `where`, the location of strategy.tp_plan in the
// job's plan. Returns an empty list after any error. Unknown styles are not reported here, but by
// the functions of model/tp_plan.h.
std::vector<TpTableEntry> parse_tp_table(std::string_view text, const std::string& source,
                                         const Span& where, Diagnostics& found);
// Reads the file `path`, and parses its text as parse_tp_table() does. An unreadable file is an
// error "tp.plan" at `where`.
std::vector<TpTableEntry> load_tp_table(const std::filesystem::path& path, const Span& where,
                                        Diagnostics& found);

}  // namespace am::config
