// Descriptions of the plan file for machines and for people, generated from the field table.
#pragma once

#include <string>

#include "am/base/json.h"

namespace am::config {

// Returns the JSON Schema (draft 2020-12) of a plan: names, types, ranges, defaults and
// descriptions, for editors. Most editors offer completion if `schema_json().dump(2)` is saved and
// named by a `#:schema plan.schema.json` line.
Json schema_json();

// Returns the names, types, defaults and descriptions of all keys as Markdown, one table per
// section.
std::string plan_reference();

}  // namespace am::config
