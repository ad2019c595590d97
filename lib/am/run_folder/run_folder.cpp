#include "am/run_folder/run_folder.h"

#include <algorithm>
#include <string_view>
#include <system_error>
#include <utility>

#include "am/base/error.h"
#include "am/base/file.h"
#include "am/base/number.h"
#include "am/base/text.h"

namespace am::run_folder {
namespace {

constexpr std::string_view kStepPrefix = "step-";

void make_folder(const std::filesystem::path& folder) {
  std::error_code reason;
  std::filesystem::create_directories(folder, reason);
  if (!reason && !std::filesystem::is_directory(folder)) {
    reason = std::make_error_code(std::errc::not_a_directory);
  }
  if (reason) {
    throw Error(ErrorKind::kIo,
                cat(folder.string(), ": cannot make the run folder: ", reason.message()),
                "choose another one with --run-dir");
  }
}

// Throws Error(kIo) if no file can be written to the folder. Writes and removes a test file,
// because the folder's permissions do not show whether the disk is full or mounted read-only.
void prove_writable(const std::filesystem::path& folder) {
  const std::filesystem::path probe = folder / ".write-test";
  try {
    write_own_file(probe, std::string(4096, '\n'));
  } catch (const Error& error) {
    throw Error(ErrorKind::kIo,
                cat(folder.string(), ": the run folder cannot be written: ", error.what()),
                "choose another one with --run-dir");
  }
  std::error_code ignored;
  std::filesystem::remove(probe, ignored);
}

}  // namespace

RunFolder::RunFolder(std::filesystem::path root) : root_(std::move(root)) {}

RunFolder RunFolder::create(const std::filesystem::path& root) {
  RunFolder folder(root);
  make_folder(folder.root());
  prove_writable(folder.root());
  make_folder(behind_own_links(folder.logs()));
  make_folder(behind_own_links(folder.checkpoints()));
  return folder;
}

std::string rank_log_name(int64_t rank) { return cat("rank-", rank, ".log"); }

std::filesystem::path RunFolder::log(int64_t rank) const { return logs() / rank_log_name(rank); }

std::filesystem::path RunFolder::checkpoint(int64_t step) const {
  return checkpoints() / checkpoint_name(step);
}

std::string checkpoint_name(int64_t step) { return cat(kStepPrefix, step); }

std::optional<int64_t> checkpoint_step(std::string_view name) {
  if (!starts_with(name, kStepPrefix)) return std::nullopt;
  const auto step = parse_integer(name.substr(kStepPrefix.size()));
  if (!step || *step < 0) return std::nullopt;
  return step;
}

std::vector<CheckpointFolder> list_checkpoints(const std::filesystem::path& folder) {
  std::vector<CheckpointFolder> found;
  std::error_code reason;
  if (!std::filesystem::exists(folder, reason) && !reason) return found;
  std::filesystem::directory_iterator entries(folder, reason);
  while (!reason && entries != std::filesystem::directory_iterator()) {
    const auto step = checkpoint_step(entries->path().filename().string());
    if (step && entries->is_directory()) found.push_back({*step, entries->path()});
    entries.increment(reason);
  }
  if (reason) {
    throw Error(ErrorKind::kIo,
                cat(folder.string(), ": cannot list the checkpoints: ", reason.message()));
  }
  std::sort(found.begin(), found.end(), [](const auto& a, const auto& b) {
    return a.step != b.step ? a.step < b.step : a.path < b.path;
  });
  return found;
}

}  // namespace am::run_folder
