#include "am/base/home.h"

#include <cstdlib>

#include "am/base/error.h"
#include "am/base/text.h"

namespace am {

bool begins_with_home(std::string_view path) { return path == "~" || starts_with(path, "~/"); }

std::filesystem::path expand_home(const std::string& path) {
  if (path.empty() || path.front() != '~') return path;
  if (!begins_with_home(path)) {
    throw Error(ErrorKind::kUsage, cat(path, ": ~NAME is not supported, only ~ and ~/..."),
                cat("write the full path of the home folder; for a file of this name in the "
                    "current folder, write ./",
                    path));
  }
  const char* home = std::getenv("HOME");
  if (home == nullptr || *home == '\0') {
    throw Error(ErrorKind::kUsage, cat(path, ": HOME is not set"), "write the path without ~");
  }
  return std::filesystem::path(cat(home, path.substr(1)));
}

}  // namespace am
