#include "am/launch/own_checkpoints.h"

#include <sys/stat.h>

#include <utility>

#include "am/launch/run_folder.h"

namespace am::launch {

OwnCheckpoints::OwnCheckpoints(std::filesystem::path folder) : folder_(std::move(folder)) {
  for (const CheckpointFolder& found : list_checkpoints(folder_)) {
    before_.emplace(found.step, identity_of(found.path));
  }
}

std::optional<int64_t> OwnCheckpoints::newest() const {
  const auto all = list_checkpoints(folder_);
  for (auto found = all.rbegin(); found != all.rend(); ++found) {
    const auto old = before_.find(found->step);
    if (old == before_.end() || !(old->second == identity_of(found->path))) return found->step;
  }
  return std::nullopt;
}

// The inode alone is not enough: a removed folder's may be given to its successor.
OwnCheckpoints::Identity OwnCheckpoints::identity_of(const std::filesystem::path& folder) {
  struct stat info = {};
  if (::stat(folder.c_str(), &info) != 0) return {};
  return {info.st_ino, info.st_mtim.tv_sec, info.st_mtim.tv_nsec};
}

}  // namespace am::launch
