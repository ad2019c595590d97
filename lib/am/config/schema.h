// Descriptions of the plan file, generated from the field table (field.h): a JSON Schema for
// editors, and Markdown for people.
#pragma once

#include <string>

#include "am/base/json.h"
#include "am/config/field.h"

namespace am::config {

// File name of the JSON Schema in a folder of plans. The comment `#:schema ./plan.schema.json` in a
// plan refers editors to this file.
inline constexpr const char* kSchemaFile = "plan.schema.json";

// Returns the JSON Schema (draft 2020-12) of a plan: names, types, ranges, defaults and
// descriptions, for editors. The schema's $id contains the version of automesh.
Json schema_json();

// Returns the names, types, defaults and descriptions of all keys as Markdown: one table per
// section and, in [strategy], one more table per strategy.
std::string plan_reference();

// Returns the default of a key as Markdown: JSON in backquotes, "required", or "absent" for a key
// without a default value. `defaults`: the result of default_plan() for the key's strategy.
std::string default_text(const FieldSpec& field, const Plan& defaults);

}  // namespace am::config
