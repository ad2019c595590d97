// Names of a table with their numbers: "layers.#.attention.wq.weight".
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace am::stored {

// One of a name's numbers; nothing where the name lacks it, with the dot behind it.
using NameNumbers = std::vector<std::optional<int64_t>>;

// The numbers of each `#` and `@` of the pattern; nothing when the name is another.
//   match_name("layers.#.experts.@.w1", "layers.7.experts.w1")   // {7, nothing}
std::optional<NameNumbers> match_name(std::string_view pattern, std::string_view name);

// With the numbers in the places of all `#`; an `@` goes, with the dot behind it.
std::string fill_name(std::string_view pattern, const std::vector<int64_t>& numbers);

// Whether `list` has the word; words are separated by spaces.
bool has_word(std::string_view list, std::string_view word);

}  // namespace am::stored
