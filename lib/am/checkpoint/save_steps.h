// One save of one rank, from its planned file to its published folder.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <vector>

#include "am/checkpoint/checkpoint.h"
#include "am/checkpoint/rank_file.h"
#include "am/checkpoint/save_folder.h"
#include "am/runtime/group.h"

namespace am::checkpoint {

// This rank's boxes: parameters first, then optimizer state; without empty ones, and of those that
// other ranks hold too those that fall to this one.
std::vector<SavedBox> collect_boxes(parallel::ParallelModel& model,
                                    const std::vector<StateTensor>& states);

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
  // On rank 0: whether all have reported. Throws Error(kIo) where nobody can any more, as the
  // partial folder is gone.
  bool all_have_reported() const;
  // On rank 0, when all have reported.
  void publish() const;
  void clean() const;
  // Runs `body` on every rank; what it did not come to leaves no partial folder.
  void collective(const std::function<void()>& body) const;

 private:
  const runtime::Group& world_;
  std::filesystem::path folder_;
  std::function<void()> require_place_;
  Publication publication_;
  std::optional<RankFile> file_;
};

}  // namespace am::checkpoint
