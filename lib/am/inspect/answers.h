// What commands answer, from their rows in the table: for help and for programs.
#pragma once

#include <string>

#include "am/base/json.h"
#include "am/inspect/command.h"

namespace am::inspect {

// A command's help, and at its end the fields that its answer has in JSON beside those of all:
// "JSON: parameters [{name, shape, dtype, bytes}]."
std::string help_text(const Command& command);

// A JSON Schema (draft 2020-12) of am-repl's --json: the answers of all commands().
Json answers_schema();

}  // namespace am::inspect
