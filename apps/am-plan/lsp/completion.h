// The sections, keys and values that can be written at a position of a document.
#pragma once

#include <string>
#include <vector>

#include "document.h"

namespace am_plan::lsp {

struct Completion {
  enum class Kind { kSection, kKey, kValue };
  Kind kind = Kind::kKey;
  std::string label;
  std::string detail;         // the key's type; empty for sections and values
  std::string documentation;  // the section's or key's help; empty for values
  TextEdit edit;              // replaces the part of the word that precedes the position
};

// Returns the completions at a position that exists in the document, which need not be valid TOML:
// section names after `[`, values after `=`, otherwise the keys of the line's section. Omits
// sections and keys that another line of the document already contains.
std::vector<Completion> completions_at(const Document& document, Position position);

}  // namespace am_plan::lsp
