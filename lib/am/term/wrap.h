// Wraps text between words.
//
//   fold("a sentence that is too long for the terminal", style);
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "am/term/style.h"

namespace am::term {

// Returns lines of at most `width` columns. A word longer than `width` gets its own line, or is
// split after a punctuation mark if `breaks_words` ("model.layers.*.", "mlp.up_proj"). Colour
// sequences do not count.
std::vector<std::string> wrap(std::string_view text, int width, bool breaks_words = false);

// Wraps each line of `text` that is wider than style.width; continuation lines start with `hang`
// blanks. Leading blanks are kept.
std::string fold(std::string_view text, const Style& style, int hang = 2);

// Returns `left`, and `text` wrapped in a column to the right of it.
std::string beside(std::string_view left, std::string_view text, const Style& style,
                   Role role = Role::kPlain);

}  // namespace am::term
