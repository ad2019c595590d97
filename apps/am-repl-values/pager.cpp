#include "pager.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "am/term/printable.h"
#include "am/term/style.h"
#include "common/output.h"

extern char** environ;

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

// Shows the text in the pager and waits for the pager to end. Returns false, without output, if the
// pager could not be started.
bool run_pager(const char* command, const std::string& text) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return false;
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[0], STDIN_FILENO);
  // While the pager runs, Ctrl-C must reach the pager and not end this process. Therefore the pager
  // starts with an empty signal mask and the default action.
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t none, defaults;
  sigemptyset(&none);
  sigemptyset(&defaults);
  sigaddset(&defaults, SIGINT);
  sigaddset(&defaults, SIGPIPE);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &defaults);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  ::setenv("LESS", "FRX", /*overwrite=*/0);
  const char* arguments[] = {"sh", "-c", command, nullptr};
  pid_t pid = 0;
  const int failed = ::posix_spawn(&pid, "/bin/sh", &actions, &attributes,
                                   const_cast<char* const*>(arguments), environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  ::close(ends[0]);
  if (failed != 0) {
    ::close(ends[1]);
    return false;
  }
  // If the user quits the pager early, write() must fail instead of ending this process by SIGPIPE.
  auto* const before = std::signal(SIGPIPE, SIG_IGN);
  const std::string safe = am::term::printable_lines(text);
  for (std::string_view rest = safe; !rest.empty();) {
    const ssize_t count = ::write(ends[1], rest.data(), rest.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) break;
    rest.remove_prefix(static_cast<size_t>(count));
  }
  ::close(ends[1]);
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  std::signal(SIGPIPE, before);
  return !(WIFEXITED(status) && WEXITSTATUS(status) == kNotFound);
}

}  // namespace

void show_paged(const std::string& text) {
  const char* pager = std::getenv("PAGER");
  if (pager == nullptr) pager = kPager;
  if (*pager == '\0' || fits(text) || !run_pager(pager, text)) am_apps::print(text);
}

}  // namespace am_repl
