// Filters std::cout and std::cerr for all writers: text from plans, checkpoints, paths and jobs
// cannot move a cursor, change colours or reorder a line.
#pragma once

namespace am_apps {

// From this call on, both streams write each control character as '?', except newlines, tabs and,
// where allow_paint() enables them, the sequences of term::Style::paint(). Further calls have no
// effect.
void guard_output();

// Sets, for stdout (`out`) and stderr (`err`), whether the colour sequences that Style::paint()
// writes pass the filter unchanged. Both are false until the first call.
void allow_paint(bool out, bool err);

}  // namespace am_apps
