#include "pager.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "am/base/child_process.h"
#include "am/base/descriptor.h"
#include "am/base/error.h"
#include "am/term/printable.h"
#include "am/term/style.h"
#include "common/output.h"

namespace am_repl {
namespace {

constexpr const char* kPager = "less";
constexpr int kNotFound = 127;  // exit status of `sh -c COMMAND` if sh cannot find the command

// Returns the number of rows that the text occupies on a terminal of this width.
int64_t rows_of(std::string_view text, int width) {
  int64_t rows = 0;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const int columns = am::term::visible_width(text.substr(begin, end - begin));
    rows += std::max(1, (columns + width - 1) / width);
    begin = end + 1;
  }
  return rows;
}

bool fits(const std::string& text) {
  struct winsize size {};
  if (::isatty(STDIN_FILENO) == 0 || ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0) return true;
  if (size.ws_row < 2 || size.ws_col == 0) return true;
  return rows_of(text, size.ws_col) < size.ws_row;
}

// Shows the text in the pager and waits for the pager to end. Returns false if the pager could not
// be started; the text has then not been shown.
bool run_pager(const char* command, const std::string& text) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return false;
  am::Descriptor input(ends[0]);
  am::Descriptor output(ends[1]);
  ::setenv("LESS", "FRX", /*overwrite=*/0);
  pid_t pid = 0;
  try {
    // The pager stays in the process group of this process, so that Ctrl-C reaches the pager too.
    // Ctrl-C does not end this process, because the prompt handles SIGINT (interrupts.h).
    pid = am::start_child({.argv = {"/bin/sh", "-c", command}, .input_fd = input.get()});
  } catch (const am::Error&) {
    return false;
  }
  input = am::Descriptor();  // otherwise write() would not fail when the pager has ended
  // If the user quits the pager early, write() must fail instead of ending this process by SIGPIPE.
  auto* const before = std::signal(SIGPIPE, SIG_IGN);
  const std::string safe = am::term::printable_lines(text);
  for (std::string_view rest = safe; !rest.empty();) {
    const ssize_t count = ::write(output.get(), rest.data(), rest.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) break;
    rest.remove_prefix(static_cast<size_t>(count));
  }
  output = am::Descriptor();
  const int status = am::await_exit(pid);
  std::signal(SIGPIPE, before);
  return status != kNotFound;
}

}  // namespace

void show_paged(const std::string& text) {
  const char* pager = std::getenv("PAGER");
  if (pager == nullptr) pager = kPager;
  if (*pager == '\0' || fits(text) || !run_pager(pager, text)) am_apps::print(text);
}

}  // namespace am_repl
