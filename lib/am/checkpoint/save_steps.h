// One save of one rank, from its planned file to its published folder.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>

#include "am/checkpoint/checkpoint.h"
#include "am/checkpoint/rank_file.h"
#include "am/checkpoint/save_folder.h"
#include "am/runtime/group.h"

namespace am::checkpoint {

class SaveSteps {
 public:
  // Collective: draws the save's id, plans this rank's file, begins the partial folder. Throws as
  // collective_step does.
  SaveSteps(std::filesystem::path folder, const SavedState& state, parallel::ParallelModel& model);

  bool is_first() const { return world_.index() == 0; }
  RankFile& file() { return *file_; }
  const std::filesystem::path& folder() const { return folder_; }
  int64_t world_size() const { return world_.size(); }
  // After the file was written.
  void report() const;
  // On rank 0, when all have reported.
  void publish() const;
  void clean() const;
  // Runs `body` on every rank; what it did not come to leaves no partial folder.
  void collective(const std::function<void()>& body) const;

 private:
  const runtime::Group& world_;
  std::filesystem::path folder_;
  Publication publication_;
  std::optional<RankFile> file_;
};

}  // namespace am::checkpoint
