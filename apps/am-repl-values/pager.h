// Shows text that is longer than the screen in the user's pager, as git does.
#pragma once

#include <string>

namespace am_repl {

// Shows the text. If stdin and stdout are terminals and the text is longer than the screen, runs
// the pager: $PAGER, or `less` if PAGER is not set. Otherwise, and if PAGER is empty or the pager
// cannot be started, prints the text directly. Sets the variable LESS to FRX for the pager if LESS
// is not set: less then shows colours and leaves the text on the screen when it ends.
void show_paged(const std::string& text);

}  // namespace am_repl
