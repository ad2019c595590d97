// The steps of a save on one rank, from planning its data file to publishing the folder.
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

// Returns the boxes that this rank writes: parameters first, then optimizer state. Leaves out empty
// boxes, and replicated boxes that are assigned to another rank.
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
  // Writes this rank's report; its data file must be written before.
  void report() const;
  // On rank 0: whether all ranks have reported. Throws Error(kIo) if the partial folder is gone,
  // because then no rank can report.
  bool all_have_reported();
  // On rank 0, after all ranks have reported: publishes the folder.
  void publish() const;
  void clean() const;
  // Runs `body` on every rank as a collective_step; a failure removes the partial folder.
  void collective(const std::function<void()>& body) const;

 private:
  const runtime::Group& world_;
  std::filesystem::path folder_;
  std::function<void()> require_place_;
  Publication publication_;
  std::optional<RankFile> file_;
  int64_t unreported_ = 0;  // ranks below it have reported
};

}  // namespace am::checkpoint
