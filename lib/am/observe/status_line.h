// Shows a job's step lines (step_line.h) on a terminal as one status line, which is redrawn in
// place, with a curve of the loss. All other lines scroll as usual, wrapped between words.
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
  // The status line and wrapped lines fit into style.width columns.
  explicit StatusLine(const term::Style& style) : style_(style) {}

  // Returns the text to write to the terminal for `bytes`, a part of the job's output. Keeps an
  // unfinished line until the rest of the line arrives.
  std::string pass(std::string_view bytes);
  // Returns the text to write to the terminal to show `text`, which consists of complete lines,
  // above the status line.
  std::string beside(std::string_view text) const;
  // Returns the text to write at the end of the output: an unfinished line, if there is one, and a
  // newline after the status line.
  std::string finish();
  // Sets the number of columns of the terminal.
  void set_width(int columns) { style_.width = columns; }

 private:
  std::string drawn(std::string_view step_line);

  term::Style style_;
  std::string partial_;         // unfinished last line of the output
  std::string shown_;           // status line on the screen; empty: none
  std::vector<double> losses_;  // losses of the last step lines, at most kMostLosses
};

// Returns the step line `line` in fewer than style.width columns; empty if `line` is not a step
// line. Adds a curve of `losses` after the loss. To make room for the curve, leaves out the least
// important parts of the line, for example the learning rate.
std::string fitted_step_line(std::string_view line, const std::vector<double>& losses,
                             const term::Style& style);

}  // namespace am::observe
