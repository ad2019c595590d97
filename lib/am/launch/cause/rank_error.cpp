#include "am/launch/cause/rank_error.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <utility>

#include "am/base/file.h"
#include "am/base/number.h"
#include "am/base/text.h"
#include "am/launch/supervise/wall_time.h"

namespace am::launch {
namespace {

std::string text_or_empty(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

std::optional<int64_t> integer_in(const Json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_number_integer()) return std::nullopt;
  return found->get<int64_t>();
}

std::vector<int64_t> integers_in(const Json& object, const char* key) {
  std::vector<int64_t> values;
  const auto found = object.find(key);
  if (found == object.end() || !found->is_array()) return values;
  for (const Json& value : *found) {
    if (value.is_number_integer()) values.push_back(value.get<int64_t>());
  }
  return values;
}

// Parses an error that torch elastic's decorator `record` has written: {"message": {"message":
// text, "extraInfo": {"timestamp": "1700000000"}}}. `message` is the inner object, {"message":
// text, ...}.
RankError elastic_error(const Json& message) {
  RankError error;
  error.kind = kElasticError;
  error.message = text_or_empty(message, "message");
  if (const auto extra = message.find("extraInfo"); extra != message.end() && extra->is_object()) {
    const auto stamp = extra->find("timestamp");
    if (stamp != extra->end() && stamp->is_number()) error.time = stamp->get<double>();
    if (stamp != extra->end() && stamp->is_string()) {
      error.time = std::strtod(stamp->get<std::string>().c_str(), nullptr);
    }
  }
  return error;
}

// Returns when the file was last written, in seconds since the epoch; 0 if unknown.
double modification_time(const std::filesystem::path& path) {
  struct stat info = {};
  if (::stat(path.c_str(), &info) != 0) return 0.0;
  return static_cast<double>(info.st_mtim.tv_sec) +
         1e-9 * static_cast<double>(info.st_mtim.tv_nsec);
}

}  // namespace

RankError rank_error(const Error& error, int64_t rank) {
  RankError result;
  result.rank = rank;
  result.message = error.what();
  result.hint = error.hint();
  result.kind = to_string(error.kind());
  result.exit_status = error.exit_status();
  return result;
}

Json to_json(const RankError& error) {
  Json json = {{"rank", error.rank}, {"message", error.message},         {"hint", error.hint},
               {"kind", error.kind}, {"exit_status", error.exit_status}, {"time", error.time}};
  if (error.step) json["step"] = *error.step;
  if (!error.last_collective.empty()) json["last_collective"] = error.last_collective;
  if (!error.missing.empty()) json["missing"] = error.missing;
  return json;
}

std::optional<RankError> rank_error_from(const Json& json) {
  if (!json.is_object() || !json.contains("message")) return std::nullopt;
  if (json["message"].is_object()) return elastic_error(json["message"]);
  if (!json["message"].is_string()) return std::nullopt;
  RankError error;
  error.message = json["message"].get<std::string>();
  error.hint = text_or_empty(json, "hint");
  error.kind = text_or_empty(json, "kind");
  error.last_collective = text_or_empty(json, "last_collective");
  error.rank = integer_in(json, "rank").value_or(0);
  error.exit_status = static_cast<int>(integer_in(json, "exit_status").value_or(1));
  error.step = integer_in(json, "step");
  error.missing = integers_in(json, "missing");
  if (const auto time = json.find("time"); time != json.end() && time->is_number()) {
    error.time = time->get<double>();
  }
  return error;
}

void write_error_file(const std::filesystem::path& path, RankError error) {
  if (error.time == 0.0) error.time = wall_time();
  // A message may quote bytes of a user's file that are not UTF-8. dump_json replaces these bytes
  // instead of failing.
  write_own_file(path, dump_json(to_json(error)) + "\n");
}

std::optional<RankError> read_error_file(const std::filesystem::path& path) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(path, ignored)) return std::nullopt;
  try {
    auto error = rank_error_from(Json::parse(read_file(path), nullptr, false));
    if (error && error->kind == kElasticError) {
      // The timestamp is from the rank's clock, in whole seconds. The file's modification time is
      // more precise, but may be from the clock of a file server. The modification time is
      // therefore clamped to the second that begins at the timestamp.
      const double written = modification_time(path);
      error->time =
          error->time > 0.0 ? std::clamp(written, error->time, error->time + 1.0) : written;
    }
    return error;
  } catch (const Error&) {
    return std::nullopt;
  }
}

bool was_before(const RankError& error, double time) {
  // The kernel sets a file's modification time to the time of the last clock tick, which may be up
  // to kTick seconds before the file was written.
  constexpr double kTick = 0.02;
  const double doubt = error.kind == kElasticError ? kTick : 0.0;
  return error.time > 0.0 && error.time < time - doubt;
}

ErrorPipe::ErrorPipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) return;
  read_ = Descriptor(ends[0]);
  // The write end gets a number above 2, because the rank's process replaces descriptors 0 to 2.
  const Descriptor low(ends[1]);
  write_ = Descriptor(::fcntl(low.get(), F_DUPFD_CLOEXEC, 3));
}

std::string ErrorPipe::address() const {
  struct stat info = {};
  if (write_.get() < 0 || ::fstat(write_.get(), &info) != 0) return {};
  return cat(write_.get(), ":", info.st_ino);
}

std::optional<RankError> ErrorPipe::read() const {
  std::string text;
  std::array<char, 4096> piece;
  while (read_.get() >= 0) {
    const ssize_t count = ::read(read_.get(), piece.data(), piece.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) break;
    text.append(piece.data(), static_cast<size_t>(count));
  }
  const size_t end = text.find('\n');
  if (end == std::string::npos) return std::nullopt;
  return rank_error_from(Json::parse(text.substr(0, end), nullptr, false));
}

namespace {

// Returns the descriptor of the pipe that AM_ERROR_PIPE names. Returns -1 if the variable is not
// set or invalid, or if the descriptor is closed or now belongs to another file.
int error_pipe(const EnvironmentLookup& lookup) {
  const std::vector<std::string> parts = split(lookup(kErrorPipeVariable).value_or(""), ':');
  if (parts.size() != 2) return -1;
  const auto fd = parse_integer(parts[0]);
  struct stat info = {};
  if (!fd || *fd < 0 || ::fstat(static_cast<int>(*fd), &info) != 0) return -1;
  return S_ISFIFO(info.st_mode) && cat(info.st_ino) == parts[1] ? static_cast<int>(*fd) : -1;
}

}  // namespace

bool report_error(const EnvironmentLookup& lookup, RankError error) noexcept {
  try {
    if (error.time == 0.0) error.time = wall_time();
    if (const int pipe = error_pipe(lookup); pipe >= 0) {
      int waiting = 0;
      if (::ioctl(pipe, FIONREAD, &waiting) == 0 && waiting > 0) return false;
      // Largest size of the message and of the hint in bytes. Both fit into a pipe of the default
      // capacity, 64 KiB.
      constexpr size_t kMost = 16384;
      if (error.message.size() > kMost) error.message.resize(kMost);
      if (error.hint.size() > kMost) error.hint.resize(kMost);
      const std::string line = dump_json(to_json(error), -1) + "\n";
      if (::write(pipe, line.data(), line.size()) == static_cast<ssize_t>(line.size())) return true;
    }
    const auto path = lookup(kErrorFileVariable);
    if (!path || path->empty() || std::filesystem::exists(*path)) return false;
    write_error_file(*path, std::move(error));
    return true;
  } catch (const std::exception&) {
    return false;  // the launcher still has the exit status and the log
  }
}

}  // namespace am::launch
