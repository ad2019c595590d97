// Where the ranks of a job write: the run's log folder, or a temporary one.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace am::launch {

class LogFolder {
 public:
  // Made when missing. Empty: a temporary folder that goes away with this object. Throws
  // Error(kIo).
  explicit LogFolder(const std::filesystem::path& wanted);
  LogFolder(const LogFolder&) = delete;
  LogFolder& operator=(const LogFolder&) = delete;
  ~LogFolder();

  bool temporary() const { return temporary_; }
  std::filesystem::path log(int64_t rank) const;
  std::filesystem::path error_file(int64_t rank) const;

 private:
  std::filesystem::path path_;
  bool temporary_ = false;
};

}  // namespace am::launch
