// Steps of saving a checkpoint on one rank, from planning its data file to publishing the folder.
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

// Returns the boxes that this rank writes: parameters first, then optimizer states. Omits boxes
// without elements, and replicated boxes that another rank writes.
std::vector<SavedBox> collect_boxes(parallel::ShardedParameters& model,
                                    const std::vector<StateTensor>& states);

class SaveSteps {
 public:
  // Generates the save's id, computes the contents of this rank's data file, and creates the
  // partial folder, partial_folder(folder). If a rank fails, throws on every rank
  // (collective_step.h). Collective.
  SaveSteps(std::filesystem::path folder, const SavedState& state,
            parallel::ShardedParameters& model);

  bool is_first() const { return world_.index() == 0; }
  RankFile& file() { return *file_; }
  const std::filesystem::path& folder() const { return folder_; }
  int64_t world_size() const { return world_.size(); }
  // Writes this rank's report. The data file must be on disk.
  void report() const;
  // Returns whether all ranks have written their reports. Only rank 0 may call it. Throws
  // Error(kIo) if the partial folder was removed, because no rank can then write a report.
  bool all_have_reported();
  // Publishes the folder. Only rank 0 may call it, after all ranks have written their reports.
  void publish() const;
  // Removes the partial folder. Does nothing on ranks other than 0.
  void clean() const;
  // Runs `body` on every rank by collective_step(). If a rank fails, removes the partial folder,
  // and throws on every rank. Collective.
  void collective(const std::function<void()>& body) const;

 private:
  const runtime::Group& world_;
  std::filesystem::path folder_;
  std::function<void()> require_place_;
  Publication publication_;
  std::optional<RankFile> file_;
  int64_t unreported_ = 0;  // first rank whose report has not been found
};

}  // namespace am::checkpoint
