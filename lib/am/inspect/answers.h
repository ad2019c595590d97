// Generates the documentation of the JSON answers of commands from the command table: text for
// `help`, and a JSON Schema for programs.
#pragma once

#include <string>
#include <vector>

#include "am/base/json.h"
#include "am/inspect/command.h"

namespace am::inspect {

// Returns the help of the command, followed by the fields that the command adds to the fields of
// every JSON answer, for example "JSON: parameters [{name, shape, dtype, bytes}]."
std::string help_text(const Command& command);

// Returns the keys that filters behind a pipe find in the rows of the command's JSON answer. The
// rows are the first list of objects in the answer. If they contain nested rows
// (Command::nested_rows), the keys of the nested rows follow. Returns only keys that are listed
// in Command::json; empty if the answer has no rows.
std::vector<std::string> row_keys(const Command& command);

// Returns a JSON Schema (draft 2020-12) of the output of am-repl --json, with the answers of all
// commands().
Json answers_schema();

}  // namespace am::inspect
