// What std::cout and std::cerr let through to a terminal, a pipe or a file, whoever writes: text of
// plans, checkpoints, paths and jobs cannot move a cursor, change colours or reorder a line.
#pragma once

namespace am_apps {

// From now on both streams write each control character as '?', except newlines, tabs and, once
// allow_paint() says so, the sequences of term::Style::paint(). Further calls change nothing.
void guard_output();

// Whether paint() writes to these streams.
void allow_paint(bool out, bool err);

}  // namespace am_apps
