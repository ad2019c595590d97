// Checkpoints that are written while training goes on: what a rank writes is copied into memory
// that is kept for that, and a thread brings it to the disk.
//
//   BackgroundSaver saver(model);
//   saver.save(folder, state, [&] { drop_old(..); });   // returns when the copy is made
//   saver.finish();                                     // before the job ends
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>

#include "am/checkpoint/checkpoint.h"

namespace am::checkpoint {

class BackgroundSaver {
 public:
  // `model` must outlive it.
  explicit BackgroundSaver(parallel::ParallelModel& model);
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
  // Bytes that are kept for copies.
  int64_t staging_bytes() const;

 private:
  class Save;
  parallel::ParallelModel& model_;
  std::unique_ptr<Save> last_;
  struct Staging;
  std::unique_ptr<Staging> staging_;
};

}  // namespace am::checkpoint
