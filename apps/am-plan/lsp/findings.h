// The diagnostics of an open document.
#pragma once

#include <string>

#include "am/base/diagnostic.h"
#include "document.h"

namespace am_plan::lsp {

// Returns the diagnostics that `am-plan check` would report for a plan file with the document's
// text.
am::Diagnostics findings(const Document& document);

// Returns the range that a finding marks: its span, or the first line for a finding about the whole
// file or about another file.
Range range_of(const Document& document, const am::Diagnostic& finding);

// Returns the message of a finding with its help. The message begins with "FILE:LINE: " if the
// finding is about a file other than the document's.
std::string message_of(const Document& document, const am::Diagnostic& finding);

}  // namespace am_plan::lsp
