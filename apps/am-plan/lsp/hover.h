// Explanations of the keys, sections and violated rules in a document.
#pragma once

#include <optional>
#include <string>

#include "am/base/diagnostic.h"
#include "document.h"

namespace am_plan::lsp {

struct Hover {
  Range range;
  std::string markdown;
};

// Returns the meaning of the key or section at a position that exists in the document, followed by
// the rules that are violated there according to `found`. Returns nothing if there are neither.
std::optional<Hover> hover_at(const Document& document, const am::Diagnostics& found,
                              Position position);

}  // namespace am_plan::lsp
