// A rank's log file, opened for appending. The launcher reads the last lines if the rank fails.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace am::launch {

// Owns the descriptor of the log file. Stores the offset at which the output of this attempt of the
// job begins, because restarts and resumed jobs append to an existing log.
class RankLog {
 public:
  // Opens the log or creates it, and appends `heading`, which tail() never returns. Throws
  // Error(kIo) if the file cannot be opened.
  explicit RankLog(const std::filesystem::path& path, std::string_view heading = {});
  RankLog(RankLog&& other) noexcept;
  RankLog& operator=(RankLog&&) = delete;
  RankLog(const RankLog&) = delete;
  RankLog& operator=(const RankLog&) = delete;
  ~RankLog();

  int fd() const { return fd_; }
  const std::filesystem::path& path() const { return path_; }
  // Appends the bytes. Errors are ignored, because a full disk must not end the training.
  void append(std::string_view bytes) const;
  // Returns the last lines that were appended after the heading: at most `lines` lines and 64 KiB.
  std::vector<std::string> tail(int lines) const;

 private:
  std::filesystem::path path_;
  int fd_ = -1;
  int64_t start_ = 0;
};

}  // namespace am::launch
