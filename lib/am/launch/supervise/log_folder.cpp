#include "am/launch/supervise/log_folder.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <system_error>

#include "am/base/error.h"
#include "am/base/file.h"
#include "am/base/text.h"
#include "am/run_folder/run_folder.h"

namespace am::launch {

LogFolder::LogFolder(const std::filesystem::path& wanted) : path_(wanted) {
  std::error_code reason;
  if (wanted.empty()) {
    std::string name = (std::filesystem::temp_directory_path() / "am-run-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) {
      throw Error(ErrorKind::kIo, cat(name, ": cannot make a folder: ", std::strerror(errno)));
    }
    path_ = name;
    temporary_ = true;
  } else if (!std::filesystem::is_directory(behind_own_links(wanted)) &&
             !std::filesystem::create_directories(behind_own_links(wanted), reason)) {
    throw Error(ErrorKind::kIo,
                cat(wanted.string(), ": cannot make the log folder: ", reason.message()));
  }
}

LogFolder::~LogFolder() {
  std::error_code ignored;
  if (temporary_) std::filesystem::remove_all(path_, ignored);
}

std::filesystem::path LogFolder::log(int64_t rank) const {
  return path_ / run_folder::rank_log_name(rank);
}

std::filesystem::path LogFolder::error_file(int64_t rank) const {
  return path_ / cat("rank-", rank, ".error.json");
}

}  // namespace am::launch
