// Implements JsonlSink, which metrics.h declares.
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "am/base/error.h"
#include "am/base/file.h"
#include "am/base/json.h"
#include "am/base/text.h"
#include "am/observe/metrics.h"

namespace am::observe {
namespace {

[[noreturn]] void fail(const std::filesystem::path& path) {
  throw Error(ErrorKind::kIo,
              cat(path.string(), ": cannot write the metrics: ", std::strerror(errno)));
}

// Returns the lines of `text` whose step is at most resumed_step. The lines are not rewritten, so
// fields of other versions of automesh are kept. Lines that are not records, and an unfinished last
// line, are dropped.
std::string kept_lines(const std::string& text, int64_t resumed_step) {
  std::string kept;
  for (size_t at = 0; at < text.size();) {
    const size_t end = text.find('\n', at);
    if (end == std::string::npos) break;
    const std::string line = text.substr(at, end - at);
    const Json json = Json::parse(line, nullptr, false);
    if (json.is_object() && json.contains("step") && json["step"].is_number_integer() &&
        json["step"].get<int64_t>() <= resumed_step) {
      kept += line + '\n';
    }
    at = end + 1;
  }
  return kept;
}

}  // namespace

std::optional<std::filesystem::path> set_aside(const std::filesystem::path& path) {
  std::error_code none;
  const auto size = std::filesystem::file_size(path, none);
  if (none || size == 0) return std::nullopt;
  std::filesystem::path aside;
  for (int number = 1; aside.empty() || std::filesystem::exists(aside); ++number) {
    aside = cat(path.string(), ".", number);
  }
  std::filesystem::rename(path, aside);
  return aside;
}

JsonlSink::JsonlSink(const std::filesystem::path& path, int64_t resumed_step) : path_(path) {
  std::string kept;
  if (std::filesystem::exists(path)) {
    const std::string text = read_file(path, kAnySize);
    if (resumed_step > 0) kept = kept_lines(text, resumed_step);
    // write_own_file() replaces the file by a rename, so a reader sees either the old or the new
    // content.
    if (kept != text) write_own_file(path, kept);
  }
  fd_ = open_own_file(path, O_WRONLY | O_APPEND | O_CREAT);
  if (fd_ < 0) fail(path_);
}

JsonlSink::~JsonlSink() { ::close(fd_); }

void JsonlSink::write(const StepMetrics& metrics) {
  const std::string line = to_json_line(metrics) + '\n';
  size_t done = 0;
  while (done < line.size()) {
    const ssize_t written = ::write(fd_, line.data() + done, line.size() - done);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) fail(path_);
    done += static_cast<size_t>(written);
  }
}

void JsonlSink::flush() {
  if (sync_retrying(fd_) != 0 && errno != EINVAL) fail(path_);
}

}  // namespace am::observe
