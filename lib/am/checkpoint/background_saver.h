// Writes checkpoints while training goes on: save() copies the rank's tensors into a staging
// buffer, which a thread writes to disk. Values on a GPU are copied into pinned memory on a stream
// of their own, while the next step computes.
//
//   BackgroundSaver saver(model, state);
//   saver.save(folder, state, [&] {   // calls this once saved
//     run_folder::drop_old(checkpoints, 3, lineage);
//   });
//   saver.before_update();   // before parameters or optimizer state change
//   saver.finish();          // before the job ends
#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <functional>
#include <memory>

#include "am/checkpoint/checkpoint.h"
#include "am/tensor/side_stream.h"

namespace am::checkpoint {

// Returns a staging buffer, [bytes], for a copy of all that this rank writes; on the meta device
// for a dry run's model.
at::Tensor allocate_staging(parallel::ParallelModel& model, const SavedState& state, bool on_host);

class BackgroundSaver {
 public:
  // Allocates the staging buffer for `model` and states like `state`, so that a lack of memory
  // fails at the start of a job. `model` must outlive this object. `on_host`: whether the model is
  // in host memory, as the staging buffer is.
  BackgroundSaver(parallel::ParallelModel& model, const SavedState& state, bool on_host = true);
  // Waits for this rank's thread. A checkpoint that other ranks have not yet written is not
  // published.
  ~BackgroundSaver();
  BackgroundSaver(const BackgroundSaver&) = delete;
  BackgroundSaver& operator=(const BackgroundSaver&) = delete;

  // Collective. Waits for the previous save as finish() does. Calls `published` on rank 0, in its
  // thread, after renaming the folder to its final name. On a GPU it returns before the values are
  // copied: before_update() must come before they change.
  void save(const std::filesystem::path& folder, const SavedState& state,
            std::function<void()> published = {});
  // Makes the device's current stream wait until the last save's values are copied.
  void before_update() { copies_.current_waits(); }
  // Collective. Waits until the last save is on disk. Throws on every rank if one rank could not
  // write, for example Error(kIo).
  void finish();
  // Whether this rank's last save has failed; finish() throws the error.
  bool failed() const;

 private:
  class Save;
  parallel::ParallelModel& model_;
  at::Tensor staging_;
  tensor::SideStream copies_;
  std::unique_ptr<Save> last_;
};

}  // namespace am::checkpoint
