// Reads the text operand of `tokens`, `loss` and `logprob`, and the text of the option --of. An
// operand or option is either the text itself or the path of a file with the text.
//
//   loss the whole line             the words are the text
//   loss notes.txt                  the file's contents; an error if there is no such file
//   loss "notes.txt"                the file's contents; if there is no such file, the words
#pragma once

#include <cstdint>
#include <string>

#include "am/inspect/command.h"
#include "am/inspect/session.h"

namespace am::inspect {

struct TextArgument {
  std::string text;
  std::string file;  // path from which `text` was read; empty if `text` was typed
};

// Largest size in bytes of a file that text_or_file() reads.
inline constexpr int64_t kLongestText = int64_t{64} << 20;

// Returns the text that the operands of a command specify. Throws Error(kIo) for an unquoted word
// that looks like a file name but names no file, for an unquoted path that is not a regular file,
// and for a file that is longer than kLongestText.
TextArgument text_or_file(const Session& session, const Arguments& arguments);
// Returns the text that the value of an option specifies. The value is treated as one quoted word:
// the path of an existing file means the contents of the file.
TextArgument text_or_file(const Session& session, const std::string& value);

}  // namespace am::inspect
