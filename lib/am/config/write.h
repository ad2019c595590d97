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

// Returns the plan as a person would write it: the model, the name of the strategy, and those other
// keys whose value is not the default. If the text is saved as `file`, loading `file` returns the
// same plan. Relative paths are rewritten to be relative to the folder of `file`, so that plan,
// model and data can be moved together; absolute paths and names of models are kept. Without
// `file`, all paths become absolute. If the folder of `file` contains plan.schema.json, the text
// begins with a `#:schema` comment, by which editors find this schema.
std::string to_short_toml(const Plan& plan, const std::filesystem::path& file = {});

// Returns the text of to_short_toml() with two additions: a comment above each key and section with
// its help text, and the keys that the plan sets to their default values.
std::string to_explained_toml(const Plan& plan, const std::filesystem::path& file);

// Returns TOML with only the named keys, for example "mesh.tp_size", in the order of the table of
// all keys (field.h). Paths are as written in the plan. Skips keys that the plan's strategy does
// not have, and keys without a value.
std::string to_toml(const Plan& plan, std::span<const std::string> keys);

// Returns a JSON value as TOML on one line. Writes null as "none", the value of an unset dtype in
// mp_policy.
std::string toml_value(const Json& value);
// Returns the text in double quotes, with control characters (term/printable.h) escaped. If the
// text is UTF-8, the result is valid in JSON and YAML too.
std::string toml_text(std::string_view text);
// Returns the key, in quotes if TOML requires them.
std::string toml_key(const std::string& key);

}  // namespace am::config
