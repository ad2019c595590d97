// Writes plans, and parts of TOML, as text.
//
//   const std::vector<std::string> keys = {"model.path", "mesh.tp_size"};
//   to_toml(plan, keys);                    // two sections with a key each
//   toml_value({{"pin_memory", true}});     // { pin_memory = true }
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "am/base/json.h"
#include "am/config/plan.h"

namespace am::config {

// Returns the plan as a person would write it: its model, the name of its strategy, and only those
// other keys whose value is not the default. If the text is saved as `file`, it loads to the same
// plan: relative paths are rewritten to refer to the folder of `file`, so that plan, model and data
// can be moved together; absolute paths and names of models are kept. Without `file`, all paths are
// made absolute. If the folder has a plan.schema.json, the text begins with a comment that names
// the schema for editors.
std::string to_short_toml(const Plan& plan, const std::filesystem::path& file = {});

// Returns the text of to_short_toml() with the help of each key and section in comments above it,
// and with all keys that the plan sets.
std::string to_explained_toml(const Plan& plan, const std::filesystem::path& file);

// Returns TOML with only the named keys, for example "mesh.tp_size", in the field table's order;
// paths are as written in the plan. Skips names that the plan's strategy does not have, and absent
// values.
std::string to_toml(const Plan& plan, std::span<const std::string> keys);

// Returns a JSON value as TOML on one line; null is "none", as in mp_policy.
std::string toml_value(const Json& value);
// Returns the text in double quotes, with control characters (term/printable.h) escaped. The result
// is valid in JSON and YAML too.
std::string toml_text(std::string_view text);
// Returns the key, in quotes if TOML requires them.
std::string toml_key(const std::string& key);

}  // namespace am::config
