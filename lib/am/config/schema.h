// The plan file described for machines and for people, from the field table.
#pragma once

#include <string>

#include "am/base/json.h"

namespace am::config {

// JSON Schema (draft 2020-12) of a plan: names, types, ranges, defaults and descriptions, for
// editors. `schema_json().dump(2)` beside a `#:schema plan.schema.json` line gives completion in
// most of them.
Json schema_json();

// The same as Markdown: one table a section.
std::string plan_reference();

}  // namespace am::config
