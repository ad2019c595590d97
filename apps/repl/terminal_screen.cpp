#include "repl/terminal_screen.h"

#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <iostream>
#include <string>
#include <string_view>

#include "am/base/text.h"
#include "am/term/printable.h"
#include "am/term/style.h"

namespace am_repl {

namespace {

constexpr std::string_view kEnter = "\033[?1049h\033[?25l";  // alternate screen, no cursor
constexpr std::string_view kLeave = "\033[?25h\033[?1049l";
constexpr std::string_view kHome = "\033[H";
constexpr std::string_view kClearLine = "\033[K";
constexpr std::string_view kClearBelow = "\033[J";
constexpr char kControlC = 3;
constexpr char kEscape = 27;

// Writes to the terminal, past std::cout, which replaces control characters (output_guard.h).
void write_to_terminal(std::string_view text) {
  while (!text.empty()) {
    const ssize_t count = ::write(STDOUT_FILENO, text.data(), text.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return;  // the terminal is gone; wait() reports it
    text.remove_prefix(static_cast<size_t>(count));
  }
}

std::atomic<bool> g_open = false;  // whether a TerminalScreen exists

// Reads the keys that the user has typed. Returns whether one of them closes the screen, or the
// terminal is gone.
bool read_key(short events) {
  char typed[64];
  const ssize_t count = ::read(STDIN_FILENO, typed, sizeof(typed));
  if (count <= 0) return (events & (POLLHUP | POLLERR)) != 0;
  // An arrow key or the mouse wheel sends several bytes, which begin with Esc.
  if (typed[0] == kEscape) return count == 1;
  const std::string_view text(typed, static_cast<size_t>(count));
  return text.find_first_of(std::string{'q', kControlC}) != std::string_view::npos;
}

winsize window() {
  winsize size{};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_row == 0 || size.ws_col == 0) {
    size.ws_row = 24;
    size.ws_col = 80;
  }
  return size;
}

}  // namespace

std::unique_ptr<am::inspect::Screen> TerminalScreen::open() {
  termios before{};
  if (!am::term::can_redraw(STDOUT_FILENO) || ::tcgetattr(STDIN_FILENO, &before) != 0) return {};
  return std::unique_ptr<am::inspect::Screen>(new TerminalScreen(before));
}

TerminalScreen::TerminalScreen(const termios& before) : before_(before) {
  termios raw = before;
  raw.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO | ISIG);
  raw.c_cc[VMIN] = 0;
  raw.c_cc[VTIME] = 0;
  ::tcsetattr(STDIN_FILENO, TCSANOW, &raw);
  std::cout.flush();
  write_to_terminal(kEnter);
  g_open = true;
}

TerminalScreen::~TerminalScreen() {
  g_open = false;
  write_to_terminal(kLeave);
  ::tcsetattr(STDIN_FILENO, TCSAFLUSH, &before_);
}

int TerminalScreen::rows() const { return window().ws_row; }

int TerminalScreen::columns() const { return window().ws_col; }

void TerminalScreen::draw(const std::string& text) {
  std::string frame(kHome);
  int left = rows();
  // The text contains parts from the job, whose control characters must not reach the terminal.
  for (const std::string& line : am::split(am::term::printable_lines(text), '\n')) {
    if (left-- == 0) break;
    // Newlines stand only between lines: a newline after the last line would scroll the screen.
    if (frame.size() > kHome.size()) frame += "\r\n";
    frame += line;
    frame += kClearLine;
  }
  frame += kClearBelow;
  write_to_terminal(frame);
}

bool TerminalScreen::wait(std::chrono::milliseconds time) {
  const auto end = std::chrono::steady_clock::now() + time;
  for (;;) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        end - std::chrono::steady_clock::now());
    if (left.count() <= 0) return true;
    pollfd key{STDIN_FILENO, POLLIN, 0};
    if (::poll(&key, 1, static_cast<int>(left.count())) <= 0) continue;
    if (read_key(key.revents)) return false;
  }
}

bool TerminalScreen::leaves() {
  pollfd key{STDIN_FILENO, POLLIN, 0};
  return g_open && ::poll(&key, 1, 0) > 0 && read_key(key.revents);
}

}  // namespace am_repl
