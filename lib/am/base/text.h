// Text helpers: joining, splitting, globs, spelling suggestions, and UTF-8.
#pragma once

#include <optional>
#include <span>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace am {

// Concatenates its arguments by streaming, as in cat("tp_size = ", 3).
template <typename... Args>
std::string cat(const Args&... args) {
  std::ostringstream out;
  (out << ... << args);
  return std::move(out).str();
}

std::string join(std::span<const std::string> parts, std::string_view separator);
// Joins numbers. A `last` that is not empty replaces the final separator, as in "2, 4 or 8".
std::string join(std::span<const int64_t> parts, std::string_view separator,
                 std::string_view last = {});
// Returns a shape as text, for example "[4096, 1024]".
std::string shape_text(std::span<const int64_t> shape);
std::vector<std::string> split(std::string_view text, char separator);
std::string_view trim(std::string_view text);
// Returns the text with the letters A to Z in lower case. Other letters stay as they are;
// chat::lower() of chat/characters.h converts all letters.
std::string lower(std::string_view text);
bool starts_with(std::string_view text, std::string_view prefix);
bool ends_with(std::string_view text, std::string_view suffix);

// Whether a text matches a shell-like glob: `*` matches any number of characters, `?` one
// character, `[ab]` one character of a set, `[!ab]` one character outside the set, and `{a,b}` one
// of the alternatives. A character is one byte here. Case matters, and `*` also matches dots and
// slashes. For a pattern that glob_problem() rejects, throws Error(kUsage), or returns false if the
// text already differs from the literal beginning or end of the pattern.
bool glob_match(std::string_view pattern, std::string_view text);
// Returns why a text cannot be used as a glob, for example "nests braces more than 64 levels deep".
// Returns an empty text for a valid glob. Patterns come from untrusted plans. Their length is
// limited because matching takes longer for longer patterns, and the depth of their braces because
// matching recurses.
std::string glob_problem(std::string_view pattern);
bool is_glob(std::string_view text);

// Returns the optimal-string-alignment distance (Damerau): the smallest number of edits that turn
// `a` into `b`. An edit inserts, deletes or changes one byte, or swaps two neighbouring bytes.
int edit_distance(std::string_view a, std::string_view b);
// Returns the candidate that a user who wrote `word` probably meant; `word` may be a misspelling or
// an abbreviation. Returns nothing if no candidate is near enough.
std::optional<std::string> nearest(std::string_view word, std::span<const std::string> candidates);
// Whether `a` comes before `b` in natural order, in which "layers.2" is before "layers.10".
bool natural_less(std::string_view a, std::string_view b);

// Returns the number of bytes of the first UTF-8 character of `text`; 0 if `text` is empty or
// begins with invalid UTF-8. Overlong forms, surrogates and values above U+10FFFF are invalid.
size_t utf8_length(std::string_view text);
bool is_utf8(std::string_view text);

// Returns the number of code points of a UTF-8 text.
int character_count(std::string_view text);
// Returns the number of terminal columns of a UTF-8 text, much as the C library's wcwidth() does.
int display_width(std::string_view text);

}  // namespace am
