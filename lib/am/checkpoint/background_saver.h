// Checkpoints that are written while training goes on: what a rank writes is copied into memory
// that is kept for that, and a thread brings it to the disk.
//
//   BackgroundSaver saver(model);
//   saver.save(folder, state, [&] { drop_old(..); });   // returns when the copy is made
//   saver.finish();                                     // before the job ends
#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <functional>
#include <memory>

#include "am/checkpoint/checkpoint.h"

namespace am::checkpoint {

// [bytes], for a copy of what this rank writes; of a dry run's model without contents.
at::Tensor allocate_staging(parallel::ParallelModel& model, const SavedState& state, bool on_host);

class BackgroundSaver {
 public:
  // Takes the memory for copies of the model, which must outlive it, and of what is like `state`:
  // at the start of a job it is known whether there is enough. `on_host`: the model computes there
  // too.
  BackgroundSaver(parallel::ParallelModel& model, const SavedState& state, bool on_host = true);
  ~BackgroundSaver();  // waits for this rank's thread; what others have not written is not
                       // published
  BackgroundSaver(const BackgroundSaver&) = delete;
  BackgroundSaver& operator=(const BackgroundSaver&) = delete;

  // Collective; waits for the last one as finish() does. `published` is called on rank 0, in its
  // thread, when the folder has its name.
  void save(const std::filesystem::path& folder, const SavedState& state,
            std::function<void()> published = {});
  // Collective: until the last save is on the disk. Throws Error(kIo) on every rank when one could
  // not write.
  void finish();
  // Whether this rank's last save has failed; finish() says why.
  bool failed() const;

 private:
  class Save;
  parallel::ParallelModel& model_;
  at::Tensor staging_;
  std::unique_ptr<Save> last_;
};

}  // namespace am::checkpoint
