// Wraps text between words.
//
//   fold("a sentence that is too long for the terminal", style);
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "am/term/style.h"

namespace am::term {

// Returns lines of at most `width` columns. A word longer than `width` gets its own line. If
// `breaks_words`, such a word is split after punctuation marks instead, for example into
// "model.layers.*." and "mlp.up_proj". Colour sequences do not count.
std::vector<std::string> wrap(std::string_view text, int width, bool breaks_words = false);

// Wraps each line of `text` that is wider than style.width. The continuation lines are indented by
// `hang` blanks more than the line itself, whose leading blanks are kept. `breaks_words`: as for
// wrap().
std::string fold(std::string_view text, const Style& style, int hang = 2,
                 bool breaks_words = false);

// Returns `left` with `text` to the right of it, wrapped in a column of its own.
std::string beside(std::string_view left, std::string_view text, const Style& style,
                   Role role = Role::kPlain);

}  // namespace am::term
