// Filters everything written to std::cout and std::cerr, so that text from plans, checkpoints,
// paths and jobs cannot move the cursor, change colours or reorder a line.
#pragma once

namespace am_apps {

// Installs the filter. From this call on, std::cout and std::cerr write '?' for each control
// character except newlines and tabs; allow_paint() also exempts the tools' own colours. Further
// calls have no effect.
void guard_output();

// Sets whether colour sequences that term::Style::paint() writes pass the filter: on stdout if
// `out` is set, on stderr if `err` is set. Before the first call, neither stream lets them pass.
void allow_paint(bool out, bool err);

}  // namespace am_apps
