// The text operand of `loss` and `logprob`: words, or a file.
//
//   loss the whole line             words
//   loss notes.txt                  the file; an error if it does not exist
//   loss "notes.txt"                the file if it exists, otherwise the text
#pragma once

#include <cstdint>
#include <string>

#include "am/inspect/command.h"

namespace am::inspect {

struct TextArgument {
  std::string text;
  std::string file;  // source file; empty: the words themselves
};

// Largest text file; users must pass an excerpt of a larger one. Texts are scored token by token,
// in windows.
inline constexpr int64_t kLongestText = int64_t{64} << 20;  // bytes

// Throws Error(kIo) for an unquoted word that looks like a file name and is not a file, for a path
// that is not a regular file, and for a file that is too long.
TextArgument text_or_file(const Arguments& arguments);
// For an option's value, treated like a quoted word: the file if it exists.
TextArgument text_or_file(const std::string& value);

}  // namespace am::inspect
