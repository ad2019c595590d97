// The folder of the ranks' logs: the run's log folder or a temporary one.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace am::launch {

class LogFolder {
 public:
  // Creates `wanted` if missing. If empty, uses a temporary folder that the destructor removes.
  // Throws Error(kIo).
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
