// What `loss` and `logprob` are asked about: words, or a file.
//
//   loss the whole line             words
//   loss notes.txt                  the file; an error when there is none
//   loss "notes.txt"                the file when there is one, else these words
#pragma once

#include <cstdint>
#include <string>

#include "am/inspect/command.h"

namespace am::inspect {

struct TextArgument {
  std::string text;
  std::string file;  // it was read from; empty: the words themselves
};

// A text is scored in windows, token by token: past this a part of the file has to be cut out.
inline constexpr int64_t kLongestText = int64_t{64} << 20;  // bytes

// Throws Error(kIo) for a word without quotes that looks like a file's name and is none, for what
// is no regular file, and for a file that is too long.
TextArgument text_or_file(const Arguments& arguments);
// Of an option's value, as of a word in quotes: the file when there is one.
TextArgument text_or_file(const std::string& value);

}  // namespace am::inspect
