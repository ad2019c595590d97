// Plans, and pieces of TOML, as text.
//
//   to_toml(plan, {"model.path", "mesh.tp_size"});   // two sections with a key each
//   toml_value({{"pin_memory", true}});              // { pin_memory = true }
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "am/base/json.h"
#include "am/config/plan.h"

namespace am::config {

// The plan as a person would write it: its model, and every key whose value is not the default.
// Paths become absolute. It loads to the same plan.
std::string to_short_toml(const Plan& plan);

// These keys of a plan alone ("mesh.tp_size"), in the field table's order; paths as they are
// written in the plan. Names that the plan's strategy does not have, and absent values, are left
// out.
std::string to_toml(const Plan& plan, std::span<const std::string> keys);

// A JSON value as TOML on one line; null is "none", as it is written inside of mp_policy.
std::string toml_value(const Json& value);
// In double quotes; control characters (term/printable.h) escaped, the rest as it is. JSON and YAML
// read it so too.
std::string toml_text(std::string_view text);
// Quoted where it needs to be.
std::string toml_key(const std::string& key);

}  // namespace am::config
