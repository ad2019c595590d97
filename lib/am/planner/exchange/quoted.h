// Reads quoted text as YAML and JSON write it; config::toml_text writes it.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace am::planner {

// Reads the quoted text that begins at `at`, and moves `at` behind it: "..." with JSON's and
// YAML's escapes, or '...' with '' for a quote. Null when it is right, else what is wrong.
const char* read_quoted(std::string_view text, size_t& at, std::string& out);

}  // namespace am::planner
