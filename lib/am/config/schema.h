// Descriptions of the plan file for machines and for people, generated from the field table.
#pragma once

#include <string>

#include "am/base/json.h"
#include "am/config/field.h"

namespace am::config {

// Name under which the schema is saved beside plans. A comment `#:schema ./plan.schema.json` in a
// plan names it for editors.
inline constexpr const char* kSchemaFile = "plan.schema.json";

// Returns the JSON Schema (draft 2020-12) of a plan: names, types, ranges, defaults and
// descriptions, for editors. Its $id has the version of automesh.
Json schema_json();

// Returns the names, types, defaults and descriptions of all keys as Markdown, one table per
// section.
std::string plan_reference();

// Returns the default of a key as Markdown: JSON in backquotes, "required", or "absent" for a key
// that has no value unless it is set. `defaults`: default_plan() of the key's strategy.
std::string default_text(const FieldSpec& field, const Plan& defaults);

}  // namespace am::config
