// A tensor-parallel plan in a text of its own: TOML, a table of pattern = style.
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
  Span where;  // of the style, in its own file
};

// Entries in the text's order; the table stands at the top level or under [tp_plan]. What is wrong
// inside is reported there, under the name `source`; a text without a table at `where`, the plan's
// value that named it ("tp.plan"). Empty when anything is wrong. Whether a style exists is for
// model/tp_plan.h.
std::vector<TpTableEntry> parse_tp_table(std::string_view text, const std::string& source,
                                         const Span& where, Diagnostics& found);
// The same from a file; one that cannot be read is reported at `where` too.
std::vector<TpTableEntry> load_tp_table(const std::filesystem::path& path, const Span& where,
                                        Diagnostics& found);

}  // namespace am::config
