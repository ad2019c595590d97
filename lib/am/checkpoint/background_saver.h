// Writes checkpoints while training continues. save() copies the rank's tensors into a staging
// buffer in host memory, and a thread writes the buffer to disk. Values on a GPU are copied to
// pinned memory on a separate stream, while the next step computes.
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

// Returns a staging buffer, [bytes], that is large enough for all data that this rank writes to a
// checkpoint. Like the model of a dry run, it may be on the meta device.
at::Tensor allocate_staging(parallel::ParallelModel& model, const SavedState& state, bool on_host);

class BackgroundSaver {
 public:
  // Allocates the staging buffer, so that a lack of memory is found at the start of a job. `state`
  // must have the tensors that later saves have. `model` must outlive this object. `on_host` is
  // true if the model is in host memory.
  BackgroundSaver(parallel::ParallelModel& model, const SavedState& state, bool on_host = true);
  // Waits until this rank's thread ends. If other ranks have not written their files yet, the
  // checkpoint's folder does not get its final name.
  ~BackgroundSaver();
  BackgroundSaver(const BackgroundSaver&) = delete;
  BackgroundSaver& operator=(const BackgroundSaver&) = delete;

  // Begins to write a checkpoint to `folder`, after waiting for the previous save as finish() does.
  // When the folder has its final name, rank 0's thread calls `published`. Values on a GPU may not
  // be copied yet when save() returns, so before_update() must be called before they change.
  // Collective.
  void save(const std::filesystem::path& folder, const SavedState& state,
            std::function<void()> published = {});
  // Makes the device's current stream wait until the last save's values are copied.
  void before_update() { copies_.current_waits(); }
  // Waits until the last save is on disk. If a rank could not write, throws on every rank, for
  // example Error(kIo). Collective.
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
