// Quoted text as YAML and JSON write it, both ways.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace am::planner {

// Reads the quoted text that begins at `at`, and moves `at` behind it: "..." with JSON's and
// YAML's escapes, or '...' with '' for a quote. Null when it is right, else what is wrong.
const char* read_quoted(std::string_view text, size_t& at, std::string& out);

// In double quotes; control characters escaped, the rest as it is.
std::string quote(std::string_view text);

}  // namespace am::planner
