// Logs the progress of work on files: at most one line every ten seconds.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace am::data {

class FileProgress {
 public:
  // `verb` begins each line, for example "tokenising". `log` may be empty.
  FileProgress(std::string verb, const std::vector<std::filesystem::path>& files,
               std::function<void(const std::string&)> log);

  // Sets the number of bytes of the current file that are done, and logs a line if ten seconds have
  // passed since the last line.
  void set(int64_t bytes_of_file);
  // Counts the current file, of `file_bytes` bytes, as done. The next set() refers to the next
  // file.
  void finish_file(int64_t file_bytes);

 private:
  using Clock = std::chrono::steady_clock;

  std::string verb_;
  std::function<void(const std::string&)> log_;
  int64_t all_bytes_ = 0;
  int64_t bytes_before_ = 0;  // bytes of the finished files
  Clock::time_point start_ = Clock::now();
  Clock::time_point logged_ = start_;
};

}  // namespace am::data
