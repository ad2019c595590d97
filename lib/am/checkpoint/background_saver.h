// Writes checkpoints while training continues. save() copies the rank's tensors to a staging buffer
// in host memory, and a thread writes the buffer to disk. From a GPU, values are copied to pinned
// memory on a separate stream, while the next step computes.
//
//   BackgroundSaver saver(model, state);
//   saver.save(folder, state, [&] {   // called on rank 0 when the checkpoint is complete
//     run_folder::drop_old(checkpoints, {.newest = 3}, lineage);
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

// Returns a staging buffer, a uint8 tensor that is large enough for everything that this rank
// writes to a checkpoint. If the model is on the meta device (a dry run), the buffer is too.
// `on_host`: whether the model is in host memory. If it is not, the memory meter does not add the
// buffer to its total.
at::Tensor allocate_staging(parallel::ShardedParameters& model, const SavedState& state,
                            bool on_host);

class BackgroundSaver {
 public:
  // Allocates the staging buffer, because a lack of memory should be found at the start of a job.
  // `state` must have the same tensors as the states that save() receives. `model` must outlive
  // this object. `on_host`: whether the model is in host memory.
  BackgroundSaver(parallel::ShardedParameters& model, const SavedState& state, bool on_host = true);
  // Waits until this rank's thread ends. If a rank has not written its report yet, the checkpoint
  // is not published: its folder keeps the name of an incomplete checkpoint.
  ~BackgroundSaver();
  BackgroundSaver(const BackgroundSaver&) = delete;
  BackgroundSaver& operator=(const BackgroundSaver&) = delete;

  // Waits for the previous save as finish() does, then begins to write a checkpoint to `folder`.
  // When the checkpoint is complete and its folder has its final name, rank 0's thread calls
  // `published`. On a GPU, values may not be copied yet when save() returns: call before_update()
  // before parameters or optimizer states change. Collective.
  void save(const std::filesystem::path& folder, const SavedState& state,
            std::function<void()> published = {});
  // Makes the device's current stream wait until the values of the last save are copied.
  void before_update() { copies_.current_waits(); }
  // Waits until the last save is on disk. If a rank could not write its file, or rank 0 could not
  // publish the folder, throws on every rank, for example Error(kIo). Collective.
  void finish();
  // Whether this rank's last save has failed. finish() then throws the error.
  bool failed() const;

 private:
  class Save;
  parallel::ShardedParameters& model_;
  at::Tensor staging_;
  tensor::SideStream copies_;
  std::unique_ptr<Save> last_;
};

}  // namespace am::checkpoint
