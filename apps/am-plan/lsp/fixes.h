// Quick fixes for an editor: edits that insert the values and names that a diagnostic's help text
// proposes.
#pragma once

#include <string>
#include <vector>

#include "am/base/diagnostic.h"
#include "document.h"

namespace am_plan::lsp {

struct Fix {
  std::string title;  // for example "Set tp_size = 4"
  TextEdit edit;
  std::vector<am::Diagnostic> mends;  // the findings that the edit mends, at least one
};

// Returns the fixes of the findings on the lines from `first` to `last`. `found`: findings() of the
// document. Checks the document with each edit, for at most 32 edits, and omits the other edits. An
// edit is returned only if it mends a finding and adds no error of the plan parser (rules "plan.*":
// TOML, keys, single values).
std::vector<Fix> fixes_in(const Document& document, const am::Diagnostics& found, int first,
                          int last);

}  // namespace am_plan::lsp
