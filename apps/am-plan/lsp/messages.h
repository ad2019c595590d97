// The JSON of the Language Server Protocol for positions, findings, hovers, completions and fixes.
#pragma once

#include "am/base/diagnostic.h"
#include "am/base/json.h"
#include "completion.h"
#include "document.h"
#include "fixes.h"
#include "hover.h"

namespace am_plan::lsp {

// Converts the object Position of a request. Throws JsonError if `json` is not a Position.
Position read_position(const am::Json& json);

am::Json to_json(const Hover& hover);
am::Json to_json(const Completion& completion);
// Converts a finding about the document to the protocol's object Diagnostic.
am::Json to_json(const Document& document, const am::Diagnostic& finding);
// Converts a fix of the document to the protocol's object CodeAction.
am::Json to_json(const Document& document, const Fix& fix);

// Returns the parameters of textDocument/publishDiagnostics.
am::Json published(const Document& document, const am::Diagnostics& found);
// Returns the result of the request initialize.
am::Json capabilities();

}  // namespace am_plan::lsp
