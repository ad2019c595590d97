// Filters std::cout and std::cerr for all writers: text from plans, checkpoints, paths and jobs
// cannot move a cursor, change colours or reorder a line.
#pragma once

namespace am_apps {

// From this call on, both streams write each control character as '?', except newlines, tabs and,
// where allow_paint() enables them, the sequences of term::Style::paint(). Further calls have no
// effect.
void guard_output();

// Sets whether the sequences of paint() may pass each stream.
void allow_paint(bool out, bool err);

}  // namespace am_apps
