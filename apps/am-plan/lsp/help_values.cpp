#include "help_values.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <utility>

#include "am/base/text.h"
#include "document.h"

namespace am_plan::lsp {
namespace {

bool is_word_character(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.';
}

// Returns the key with which the text ends. Returns an empty text if the text does not end with a
// key, or if the key is a part of an expression, such as "pp_size * virtual_stages".
std::string_view last_key(std::string_view text) {
  size_t begin = text.size();
  while (begin > 0 && is_word_character(text[begin - 1])) --begin;
  const std::string_view before = am::trim(text.substr(0, begin));
  const bool in_expression =
      !before.empty() && std::string_view("+-*/").find(before.back()) != kNone;
  return in_expression ? std::string_view() : text.substr(begin);
}

// Returns the length of the value with which the text begins: a number, a text in double quotes,
// true or false. Returns 0 if the text does not begin with a value.
size_t value_length(std::string_view text) {
  if (am::starts_with(text, "\"")) {
    const size_t end = text.find('"', 1);
    return end == kNone ? 0 : end + 1;
  }
  size_t end = am::starts_with(text, "-") ? 1 : 0;
  while (end < text.size() && is_word_character(text[end])) ++end;
  while (end > 0 && text[end - 1] == '.') --end;  // the full stop of a sentence
  const std::string_view word = text.substr(0, end);
  const bool number = word.find_first_of("0123456789") == (am::starts_with(word, "-") ? 1 : 0) &&
                      word.find_first_not_of("-+.0123456789e") == kNone;
  return number || word == "true" || word == "false" ? end : 0;
}

// Whether a value is complete. `rest` is the text after the value. A value that is a part of an
// expression or a range is not complete.
bool value_ends(std::string_view rest) {
  if (rest.empty() || std::string_view(",;)?.:`").find(rest[0]) != kNone) return true;
  return rest.size() > 1 && rest[0] == ' ' &&
         (std::isalpha(static_cast<unsigned char>(rest[1])) || rest[1] == '(');
}

// Returns the length of the separator of values (", " or " or ") with which the text begins; 0 if
// the text does not begin with a separator.
size_t separator_length(std::string_view text) {
  constexpr std::array<std::string_view, 2> kSeparators = {", ", " or "};
  for (const std::string_view separator : kSeparators) {
    if (am::starts_with(text, separator)) return separator.size();
  }
  return 0;
}

// Returns the values in the list with which the text begins, for example 1, 2 and 4 for
// "1, 2 or 4; or ...".
std::vector<std::string> leading_values(std::string_view text) {
  std::vector<std::string> values;
  while (const size_t length = value_length(text)) {
    if (!value_ends(text.substr(length))) break;
    values.emplace_back(text.substr(0, length));
    text.remove_prefix(length);
    const size_t separator = separator_length(text);
    if (separator == 0) break;
    text.remove_prefix(separator);
  }
  return values;
}

}  // namespace

std::vector<Proposal> proposals_in(std::string_view help) {
  constexpr std::string_view kEquals = " = ";
  std::vector<Proposal> proposals;
  for (size_t at = help.find(kEquals); at != kNone; at = help.find(kEquals, at + 1)) {
    const std::string_view key = last_key(help.substr(0, at));
    auto values = leading_values(help.substr(at + kEquals.size()));
    if (!key.empty() && !values.empty()) {
      proposals.push_back({std::string(key), std::move(values)});
    }
  }
  return proposals;
}

std::optional<std::string> suggested_name(std::string_view help) {
  struct Form {
    std::string_view before;
    std::string_view after;
  };
  constexpr std::array<Form, 3> kForms = {
      {{"did you mean \"", "\"?"}, {"did you mean [", "]?"}, {"it is called ", " here, in ["}}};
  for (const Form& form : kForms) {
    if (!am::starts_with(help, form.before)) continue;
    const std::string_view rest = help.substr(form.before.size());
    const size_t end = rest.find(form.after);
    if (end == kNone) continue;
    const std::string_view name = rest.substr(0, end);
    if (name.find('"') == kNone) return std::string(name);
  }
  return std::nullopt;
}

}  // namespace am_plan::lsp
