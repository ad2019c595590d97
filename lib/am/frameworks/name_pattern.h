// Patterns of tensor names with numbers: "layers.#.attention.wq.weight".
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace am::frameworks {

// The numbers of a name; nothing for a number that the name omits together with the following dot.
using NameNumbers = std::vector<std::optional<int64_t>>;

// Returns the number for each `#` and `@` of the pattern; nothing if the name does not match.
//   match_name("layers.#.experts.@.w1", "layers.7.experts.w1")   // {7, nothing}
std::optional<NameNumbers> match_name(std::string_view pattern, std::string_view name);

// Replaces each `#` by its number, and removes each `@` with the following dot.
std::string fill_name(std::string_view pattern, const std::vector<int64_t>& numbers);

// Returns whether the space-separated `list` contains the word.
bool has_word(std::string_view list, std::string_view word);

}  // namespace am::frameworks
