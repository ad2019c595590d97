#include "am/inspect/text_argument.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <string_view>

#include "am/base/error.h"
#include "am/base/file.h"
#include "am/base/home.h"
#include "am/base/text.h"
#include "am/base/units.h"

namespace am::inspect {
namespace {

namespace fs = std::filesystem;

bool is_letter(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0; }
bool is_letter_or_digit(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; }

// Returns whether the word ends like a file name, for example "notes.txt" or "model.7z": the last
// dot is followed by two to eight letters and digits, and the first or the second of them is a
// letter.
bool has_extension(std::string_view word) {
  const size_t dot = word.rfind('.');
  if (dot == std::string_view::npos || dot == 0) return false;
  const std::string_view extension = word.substr(dot + 1);
  return extension.size() >= 2 && extension.size() <= 8 &&
         std::all_of(extension.begin(), extension.end(), is_letter_or_digit) &&
         std::any_of(extension.begin(), extension.begin() + 2, is_letter);
}

bool looks_like_file(std::string_view word) {
  const bool one_word = word.find_first_of(" \t\n") == std::string_view::npos;
  return one_word && (word.find('/') != std::string_view::npos || has_extension(word));
}

// Returns a description of a path that is not a regular file, for example "is a folder".
std::string other_kind(const fs::file_status& status) {
  switch (status.type()) {
    case fs::file_type::directory:
      return "is a folder";
    case fs::file_type::fifo:
      return "is a pipe";
    case fs::file_type::socket:
      return "is a socket";
    default:
      return "is a device";
  }
}

std::string read_text(const fs::path& path) {
  const auto size = static_cast<int64_t>(fs::file_size(path));
  if (size > kLongestText) {
    throw Error(ErrorKind::kIo,
                cat(path.string(), ": has ", format_bytes(size), "; the limit for a text is ",
                    format_bytes(kLongestText)),
                "use a part of the file, for example the output of `head -c`");
  }
  return read_file(path);
}

}  // namespace

TextArgument text_or_file(const Session& session, const Arguments& arguments) {
  std::string text = arguments.text();
  if (arguments.words.size() != 1) return {std::move(text), {}};
  const bool quoted = arguments.quoted.front();
  const bool home = begins_with_home(text);
  // Session::path() throws for "~name", which may also be the beginning of a text.
  const fs::path path = home || !starts_with(text, "~") ? session.path(text) : fs::path(text);
  const std::string how_to_quote =
      cat("to use the word itself as a text, quote it: \"", text, "\"");
  std::error_code ignored;
  const fs::file_status status = fs::status(path, ignored);
  if (fs::is_regular_file(status)) return {read_text(path), path.string()};
  if (quoted) return {std::move(text), {}};
  if (fs::exists(status)) {
    throw Error(ErrorKind::kIo, cat(path.string(), ": ", other_kind(status), ", not a text file"),
                how_to_quote);
  }
  if (home || looks_like_file(text)) {
    throw Error(ErrorKind::kIo, cat(path.string(), ": no such file"), how_to_quote);
  }
  return {std::move(text), {}};
}

TextArgument text_or_file(const Session& session, const std::string& value) {
  Arguments arguments;
  arguments.words = {value};
  arguments.quoted = {true};
  return text_or_file(session, arguments);
}

}  // namespace am::inspect
