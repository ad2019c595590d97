#include "am/data/progress.h"

#include <algorithm>
#include <utility>

#include "am/base/number.h"
#include "am/base/text.h"
#include "am/base/units.h"

namespace am::data {

FileProgress::FileProgress(std::string verb, const std::vector<std::filesystem::path>& files,
                           std::function<void(const std::string&)> log)
    : verb_(std::move(verb)), log_(std::move(log)) {
  for (const auto& file : files) {
    std::error_code ignored;
    const auto bytes = std::filesystem::file_size(file, ignored);
    if (!ignored) all_bytes_ += static_cast<int64_t>(bytes);
  }
}

void FileProgress::set(int64_t bytes_of_file) {
  constexpr std::chrono::seconds kBetween{10};
  const auto now = Clock::now();
  if (!log_ || now - logged_ < kBetween) return;
  logged_ = now;
  const int64_t done = bytes_before_ + bytes_of_file;
  const double seconds = std::chrono::duration<double>(now - start_).count();
  const double rate = as_double(done) / seconds;
  const double left = as_double(std::max<int64_t>(0, all_bytes_ - done)) / std::max(rate, 1.0);
  log_(cat(verb_, " ", format_bytes(done), " of ", format_bytes(all_bytes_), ", ",
           format_fixed(rate / 1e6, 1), " MB/s, ", format_duration(left), " left"));
}

void FileProgress::finish_file(int64_t file_bytes) { bytes_before_ += file_bytes; }

}  // namespace am::data
