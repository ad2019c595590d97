// A rank's log file: opened for appending, and its end read back when the rank fails.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace am::launch {

// Owns the descriptor. Remembers where this run's output begins: a resumed run appends.
class RankLog {
 public:
  // `heading` is written first and does not count as output. Throws Error(kIo).
  explicit RankLog(const std::filesystem::path& path, std::string_view heading = {});
  RankLog(RankLog&& other) noexcept;
  RankLog& operator=(RankLog&&) = delete;
  RankLog(const RankLog&) = delete;
  RankLog& operator=(const RankLog&) = delete;
  ~RankLog();

  int fd() const { return fd_; }
  const std::filesystem::path& path() const { return path_; }
  // Best effort: a full disk must not end the training.
  void append(std::string_view bytes) const;
  // The last lines of this run's output, at most `lines` and 64 KiB of them.
  std::vector<std::string> tail(int lines) const;

 private:
  std::filesystem::path path_;
  int fd_ = -1;
  int64_t start_ = 0;
};

}  // namespace am::launch
