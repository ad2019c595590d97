// Reads the values that the help of a diagnostic proposes, as in "tp_size = 1, 2 or 4; or
// world_size = 15".
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace am_plan::lsp {

// A key with the values that are proposed for it.
struct Proposal {
  std::string key;                  // as in the help: "tp_size" or "strategy.name"
  std::vector<std::string> values;  // numbers, true, false, or texts in double quotes
};

// Returns all proposals in a help text. Omits keys and values that are a part of an expression,
// for example the key in "2 * tp_size = 8".
std::vector<Proposal> proposals_in(std::string_view help);

// Returns the name that a help text suggests for a wrong name: X in `did you mean "X"?`, `did you
// mean [X]?` or `it is called X here, in [section]`. Returns nothing for other texts.
std::optional<std::string> suggested_name(std::string_view help);

}  // namespace am_plan::lsp
