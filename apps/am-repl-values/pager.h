// Shows text that is longer than the screen in the user's pager, as git does.
#pragma once

#include <string>

namespace am_repl {

// Shows the text. If stdout is a terminal with fewer lines than the text, runs the pager: $PAGER,
// or `less` if PAGER is not set. If LESS is not set, it is set to FRX, so that the text stays on
// the screen. If PAGER is empty or cannot be started, and for shorter text, prints the text
// directly.
void show_paged(const std::string& text);

}  // namespace am_repl
