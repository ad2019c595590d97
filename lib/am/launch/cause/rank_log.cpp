#include "am/launch/cause/rank_log.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "am/base/error.h"
#include "am/base/file.h"
#include "am/base/text.h"

namespace am::launch {

RankLog::RankLog(const std::filesystem::path& path, std::string_view heading) : path_(path) {
  // Opens the file for reading too (O_RDWR), because tail() reads it.
  fd_ = open_own_file(path, O_RDWR | O_APPEND | O_CREAT);
  if (fd_ < 0) {
    throw Error(ErrorKind::kIo, cat(path.string(), ": cannot write: ", std::strerror(errno)));
  }
  append(heading);
  start_ = std::max<int64_t>(0, ::lseek(fd_, 0, SEEK_END));
}

RankLog::RankLog(RankLog&& other) noexcept
    : path_(std::move(other.path_)), fd_(std::exchange(other.fd_, -1)), start_(other.start_) {}

RankLog::~RankLog() {
  if (fd_ >= 0) ::close(fd_);
}

void RankLog::append(std::string_view bytes) const {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return;
    bytes.remove_prefix(static_cast<size_t>(written));
  }
}

std::vector<std::string> RankLog::tail(int lines) const {
  constexpr int64_t kMostBytes = 64 * 1024;
  const int64_t end = ::lseek(fd_, 0, SEEK_END);
  const int64_t first = std::max(start_, end - kMostBytes);
  if (lines <= 0 || first >= end) return {};
  std::string text(static_cast<size_t>(end - first), '\0');
  const ssize_t count = ::pread(fd_, text.data(), text.size(), first);
  text.resize(static_cast<size_t>(std::max<ssize_t>(0, count)));
  if (first > start_) text.erase(0, text.find('\n') + 1);  // drops a partial first line
  while (!text.empty() && text.back() == '\n') text.pop_back();
  if (text.empty()) return {};
  std::vector<std::string> all = split(text, '\n');
  const size_t keep = std::min(all.size(), static_cast<size_t>(lines));
  return {all.end() - static_cast<std::ptrdiff_t>(keep), all.end()};
}

}  // namespace am::launch
