// Wraps text between words.
//
//   fold("a sentence that is too long for the terminal", style);
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "am/term/style.h"

namespace am::term {

// Returns lines of at most `width` columns. A word wider than `width` is the exception: it gets a
// line of its own. If `breaks_words` is true, wide words are split after punctuation marks where
// possible, for example into "model.layers.*." and "mlp.up_proj". Colour sequences do not count.
std::vector<std::string> wrap(std::string_view text, int width, bool breaks_words = false);

// Wraps each line of `text` that is wider than style.width, and keeps the line's leading blanks.
// The continuation lines are indented by `hang` blanks more than the line. `breaks_words`: as for
// wrap().
std::string fold(std::string_view text, const Style& style, int hang = 2,
                 bool breaks_words = false);

// Returns `left`, and to its right `text` in the colour of `role`, wrapped in a column of its own.
std::string beside(std::string_view left, std::string_view text, const Style& style,
                   Role role = Role::kPlain);

}  // namespace am::term
