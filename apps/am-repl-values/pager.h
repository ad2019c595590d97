// Shows text that is longer than the screen in the user's pager, as git does.
#pragma once

#include <string>

namespace am_repl {

// Shows the text. If stdin and stdout are terminals and the text is longer than the screen, runs
// the pager: $PAGER, or `less` if PAGER is not set. If LESS is not set, it is set to FRX, so that
// the text stays on the screen. Prints the text directly if it fits on the screen, if PAGER is
// empty, or if the pager cannot be started.
void show_paged(const std::string& text);

}  // namespace am_repl
