// Shows the step lines of a job on a terminal as one line that is drawn over again, with the curve
// of the loss. All other lines scroll as usual.
//
//   StatusLine status(style);
//   write(status.pass(bytes));      // bytes of the job's output, in pieces of any size
//   write(status.beside("restart 1 of 3\n"));
//   write(status.finish());         // leaves the last step's line on the screen
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "am/term/style.h"

namespace am::observe {

class StatusLine {
 public:
  // Lines fit into style.width columns.
  explicit StatusLine(const term::Style& style) : style_(style) {}

  // Returns what the terminal must be sent for these bytes of output. Keeps an unfinished line
  // until its end arrives.
  std::string pass(std::string_view bytes);
  // Returns what shows a text of whole lines above the status line.
  std::string beside(std::string_view text) const;
  // Returns what ends the output: an unfinished line, and the status line with a newline.
  std::string finish();
  // Sets the number of columns of the terminal.
  void set_width(int columns) { style_.width = columns; }

 private:
  std::string drawn(std::string_view step_line);

  term::Style style_;
  std::string partial_;         // an unfinished line
  std::string shown_;           // the status line on the screen; empty: none
  std::vector<double> losses_;  // of the step lines so far, the last kMostLosses
};

// Returns a step line, or nothing if `line` is none, within `width` columns: with a curve of the
// losses behind the loss, and without the parts that have the least room, for example the learning
// rate.
std::string fitted_step_line(std::string_view line, const std::vector<double>& losses,
                             const term::Style& style);

}  // namespace am::observe
