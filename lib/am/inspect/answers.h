// Generates the documentation of the JSON answers of commands from the command table: text for
// `help`, and a JSON Schema for programs.
#pragma once

#include <string>
#include <vector>

#include "am/base/json.h"
#include "am/inspect/command.h"

namespace am::inspect {

// Returns the help of the command, followed by the fields that its JSON answer has in addition to
// the fields of every answer, for example "JSON: parameters [{name, shape, dtype, bytes}]."
std::string help_text(const Command& command);

// Returns the keys of the rows in the JSON answer of the command, in the order of its notation:
// those of the first list of objects, or of its lists of nested rows, as filters behind a pipe see
// them. Empty if the answer has no rows, or rows with any key.
std::vector<std::string> row_keys(const Command& command);

// Returns a JSON Schema (draft 2020-12) of what am-repl --json prints, with the answers of all
// commands().
Json answers_schema();

}  // namespace am::inspect
