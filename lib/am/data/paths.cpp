#include "am/data/paths.h"

#include <glob.h>

#include <algorithm>
#include <set>
#include <string>
#include <system_error>

#include "am/base/error.h"
#include "am/base/text.h"

namespace am::data {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail_to_read(const fs::path& path, const std::string& reason) {
  throw Error(ErrorKind::kIo, cat(path.string(), ": cannot read the data: ", reason),
              "check the path in [data] or [validation]; it is relative to the plan file");
}

void collect_folder(const fs::path& folder, std::vector<fs::path>& files) {
  std::error_code reason;
  fs::recursive_directory_iterator entries(folder, reason);
  while (!reason && entries != fs::recursive_directory_iterator()) {
    std::error_code dangling;
    if (entries->is_regular_file(dangling)) files.push_back(entries->path());
    entries.increment(reason);
  }
  if (reason) fail_to_read(folder, reason.message());
}

std::vector<fs::path> glob_matches(const fs::path& pattern) {
  glob_t found = {};
  const int status = ::glob(pattern.c_str(), GLOB_NOSORT | GLOB_BRACE, nullptr, &found);
  std::vector<fs::path> matches;
  if (status == 0) matches.assign(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  ::globfree(&found);
  return matches;
}

// Sorts the files by path and drops empty files. Compares paths byte by byte, so the order is the
// same on every machine. If several paths lead to one file, keeps the path without symbolic links,
// or else the first path.
std::vector<fs::path> sorted_unique(std::vector<fs::path> files) {
  std::sort(files.begin(), files.end(),
            [](const fs::path& a, const fs::path& b) { return a.native() < b.native(); });
  std::vector<fs::path> real;
  for (const fs::path& file : files) real.push_back(fs::canonical(file));
  std::set<fs::path> seen;
  std::vector<char> keep(files.size(), 0);
  for (const bool want_real : {true, false}) {
    for (size_t i = 0; i < files.size(); ++i) {
      const bool is_real = fs::absolute(files[i]).lexically_normal() == real[i];
      if (is_real == want_real && seen.insert(real[i]).second) keep[i] = 1;
    }
  }
  std::vector<fs::path> result;
  for (size_t i = 0; i < files.size(); ++i) {
    if (keep[i] && fs::file_size(files[i]) > 0) result.push_back(files[i]);
  }
  return result;
}

}  // namespace

std::vector<fs::path> expand_path(const fs::path& path) {
  std::error_code reason;
  const fs::file_status status = fs::status(path, reason);
  if (fs::is_regular_file(status)) return {path};
  std::vector<fs::path> files;
  if (fs::is_directory(status)) {
    collect_folder(path, files);
  } else if (fs::exists(status)) {
    fail_to_read(path, "neither a file nor a folder");
  } else if (!is_glob(path.string())) {
    fail_to_read(path, reason ? reason.message() : "No such file or directory");
  } else {
    for (const fs::path& match : glob_matches(path)) {
      if (fs::is_directory(match)) {
        collect_folder(match, files);
      } else if (fs::is_regular_file(match)) {
        files.push_back(match);
      }
    }
  }
  files = sorted_unique(std::move(files));
  if (files.empty()) {
    fail_to_read(path, fs::is_directory(status) ? "the folder has no nonempty file"
                                                : "no nonempty file matches this pattern");
  }
  return files;
}

std::vector<fs::path> expand_paths(const std::vector<fs::path>& paths) {
  std::vector<fs::path> files;
  for (const fs::path& path : paths) {
    const auto found = expand_path(path);
    files.insert(files.end(), found.begin(), found.end());
  }
  return files;
}

std::string files_text(const fs::path& first, size_t files) {
  return cat(first.string(), files > 1 ? cat(" and ", files - 1, " more") : "");
}

}  // namespace am::data
