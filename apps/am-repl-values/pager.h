// Answers that are longer than the screen go through the user's pager, as git's do.
#pragma once

#include <string>

namespace am_repl {

// Shows the text: on a terminal with fewer lines through $PAGER, or less (with LESS=FRX where that
// is not set), which leaves it on the screen; otherwise, and where PAGER is empty or cannot be
// started, as it is.
void show_paged(const std::string& text);

}  // namespace am_repl
