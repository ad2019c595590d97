// Shows text that is longer than the screen in the user's pager, as git does.
#pragma once

#include <string>

namespace am_repl {

// Shows the text. On a terminal with fewer lines it runs $PAGER, or less (with LESS=FRX unless LESS
// is set), which leaves the text on the screen. Otherwise, or if PAGER is empty or cannot be
// started, prints the text directly.
void show_paged(const std::string& text);

}  // namespace am_repl
