// Edits that mend what a diagnostic reports, by the values that its help proposes.
#pragma once

#include <string>
#include <vector>

#include "am/base/diagnostic.h"
#include "document.h"

namespace am_plan::lsp {

struct Fix {
  std::string title;  // for example "Set tp_size = 4"
  TextEdit edit;
  std::vector<am::Diagnostic> mends;  // findings that propose the edit, at least one
};

// Returns the fixes of all findings on the lines from `first` to `last`. `found`: findings() of the
// document. Each edit is tried: the edited plan lacks the findings that the fix mends, and has no
// new error of TOML, keys or single values.
std::vector<Fix> fixes_in(const Document& document, const am::Diagnostics& found, int first,
                          int last);

}  // namespace am_plan::lsp
