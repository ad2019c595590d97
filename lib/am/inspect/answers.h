// Documents the JSON answers of commands, from the command table: for help and for programs.
#pragma once

#include <string>

#include "am/base/json.h"
#include "am/inspect/command.h"

namespace am::inspect {

// Returns a command's help, followed by the JSON fields specific to its answer: "JSON: parameters
// [{name, shape, dtype, bytes}]."
std::string help_text(const Command& command);

// Returns a JSON Schema (draft 2020-12) of am-repl's --json: the answers of all commands().
Json answers_schema();

}  // namespace am::inspect
