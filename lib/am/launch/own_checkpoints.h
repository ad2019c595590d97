// The checkpoints that a job has written itself, apart from those that were in its folder before.
//
//   OwnCheckpoints own(run.checkpoints());   // before the first attempt
//   ...
//   own.newest();                            // 200: step-200 is there, and was not, or is another
//
// A restart must go on from its own job's last checkpoint, and never from a later one that an older
// job left in the same folder: the user may have asked for a fresh start.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>

namespace am::launch {

class OwnCheckpoints {
 public:
  // Remembers what is in the folder now; it need not exist. Throws Error(kIo) when it cannot be
  // read.
  explicit OwnCheckpoints(std::filesystem::path folder);

  // The highest step of a checkpoint that is new or was written anew since then. Throws Error(kIo).
  std::optional<int64_t> newest() const;

 private:
  // Tells a folder from another one of the same name.
  struct Identity {
    uint64_t inode = 0;
    int64_t changed_seconds = 0;
    int64_t changed_nanoseconds = 0;
    bool operator==(const Identity&) const = default;
  };
  static Identity identity_of(const std::filesystem::path& folder);

  std::filesystem::path folder_;
  std::map<int64_t, Identity> before_;
};

}  // namespace am::launch
