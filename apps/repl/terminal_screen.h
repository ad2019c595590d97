// The terminal's alternate screen, on which the dashboard is drawn.
#pragma once

#include <termios.h>

#include <memory>

#include "am/inspect/dashboard.h"

namespace am_repl {

// Shows the alternate screen until the object is destroyed, and then restores the terminal. Keys
// are read without Enter and without echo.
class TerminalScreen : public am::inspect::Screen {
 public:
  // Returns null if stdin is not a terminal, or if stdout is not a terminal that can redraw lines.
  static std::unique_ptr<am::inspect::Screen> open();

  // Returns whether a screen is open and the user has typed a key that closes the screen. Consumes
  // the typed keys. For code that waits without calling wait().
  static bool leaves();

  ~TerminalScreen() override;
  int rows() const override;
  int columns() const override;
  void draw(const std::string& text) override;
  bool wait(std::chrono::milliseconds time) override;

 private:
  explicit TerminalScreen(const termios& before);

  termios before_;
};

}  // namespace am_repl
