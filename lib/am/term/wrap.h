// Text in lines that are no wider than asked for, broken between words.
//
//   fold("a sentence that is too long for the terminal", style);
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "am/term/style.h"

namespace am::term {

// A word that is longer than `width` is a line alone, or where `breaks_words` several, if it can be
// broken behind a mark ("model.layers.*.", "mlp.up_proj"). Colours do not count.
std::vector<std::string> wrap(std::string_view text, int width, bool breaks_words = false);

// Each line of `text` that is wider than the style, with `hang` blanks before what follows in lines
// of its own. Blanks at a line's beginning stay.
std::string fold(std::string_view text, const Style& style, int hang = 2);

// `text` beside `left`, broken in a column of its own.
std::string beside(std::string_view left, std::string_view text, const Style& style,
                   Role role = Role::kPlain);

}  // namespace am::term
