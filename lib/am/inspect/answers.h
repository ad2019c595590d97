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

// Returns the keys of the rows that filters behind a pipe see in the command's JSON answer: those
// of the first list of objects, followed by those of the nested rows (Command::nested_rows) if
// there are any. Empty if the answer has no rows, or if its rows may have any keys.
std::vector<std::string> row_keys(const Command& command);

// Returns a JSON Schema (draft 2020-12) of what am-repl --json prints, with the answers of all
// commands().
Json answers_schema();

}  // namespace am::inspect
