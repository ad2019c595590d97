#include "am/checkpoint/background_saver.h"

#include <ATen/ATen.h>

#include <atomic>
#include <chrono>
#include <exception>
#include <span>
#include <thread>
#include <utility>

#include "am/base/direct_file.h"
#include "am/base/error.h"
#include "am/base/host.h"
#include "am/checkpoint/save_steps.h"
#include "am/tensor/memory_meter.h"

namespace am::checkpoint {

namespace fs = std::filesystem;

at::Tensor allocate_staging(parallel::ShardedParameters& model, const SavedState& state,
                            bool on_host) {
  const int64_t rank = model.mesh().rank();
  OptimizerValues values;
  if (rank == 0 && state.optimizer) values = optimizer_values(*state.optimizer, model.layout());
  const RankFile file(std::string(unique_id().size(), '0'), rank,
                      collect_boxes(model, state.states), values.slices);
  const tensor::MemoryUse use(on_host ? tensor::TensorUse::kOther : tensor::TensorUse::kHost);
  // Adds room to align the buffer, and room for one more torch.save archive. A later save may need
  // one more archive: equal values share an archive, but values that are equal now, for example the
  // learning rate and its initial value, may differ later.
  const auto bytes = static_cast<int64_t>(file.bytes() + 2 * kDirectAlignment);
  const auto device = model.mesh().device().is_meta() ? at::kMeta : at::kCPU;
  // Writes zeros, so that the operating system maps all pages of the buffer before the first save.
  return at::zeros({bytes}, at::TensorOptions(at::kByte).device(device).pinned_memory(
                                model.mesh().device().is_cuda()));
}

namespace {

// Returns `bytes` bytes of `staging`, beginning at the first address with the alignment of direct
// writes (kDirectAlignment).
std::span<std::byte> aligned_part(const at::Tensor& staging, size_t bytes) {
  auto* const begin = static_cast<std::byte*>(staging.data_ptr());
  const size_t over = reinterpret_cast<uintptr_t>(begin) % kDirectAlignment;
  const size_t skip = over == 0 ? 0 : kDirectAlignment - over;
  AM_ASSERT(skip + bytes <= staging.nbytes(), "the staging buffer is too small");
  return {begin + skip, bytes};
}

}  // namespace

// Note [Who waits for whom]. Each rank has a thread, which writes the rank's data file and report
// without waiting for other ranks. Rank 0's thread then waits for the reports of all ranks. Reports
// are missing only if a rank has failed. Therefore finish() first exchanges whether each rank could
// write. If a rank could not, rank 0's thread stops waiting. If a rank's process dies, the job
// ends, including rank 0's process.
class BackgroundSaver::Save {
 public:
  Save(const fs::path& folder, const SavedState& state, parallel::ShardedParameters& model,
       const at::Tensor& staging, tensor::SideStream& copies, std::function<void()> published)
      : steps_(folder, state, model), copies_(copies), published_(std::move(published)) {
    memory_ = aligned_part(staging, steps_.file().bytes());
    copies.wait_for_current();
    {
      const tensor::SideStream::Use stream(&copies);
      steps_.file().stage(memory_, tensor::is_asynchronous(model.mesh().device()));
    }
    thread_ = std::thread([this] { run(); });
  }

  ~Save() {
    stop_waiting_ = true;
    if (thread_.joinable()) thread_.join();
  }

  // Implements BackgroundSaver::finish() for this save. Collective.
  void finish() {
    try {
      steps_.collective([this] {
        written_.wait(false);
        if (write_problem_) std::rethrow_exception(write_problem_);
      });
    } catch (...) {
      stop_waiting_ = true;
      thread_.join();
      steps_.clean();
      throw;
    }
    thread_.join();
    steps_.collective([this] {
      if (publish_problem_) std::rethrow_exception(publish_problem_);
    });
  }

  bool failed() const { return failed_; }

 private:
  void run() {
    try {
      copies_.host_waits();
      steps_.file().write_staged(partial_folder(steps_.folder()), memory_);
      steps_.report();
    } catch (...) {
      write_problem_ = std::current_exception();
      failed_ = true;
    }
    written_ = true;
    written_.notify_all();
    if (!steps_.is_first() || write_problem_) return;
    try {
      while (!steps_.all_have_reported()) {
        if (stop_waiting_) return;
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
      }
      steps_.publish();
      if (published_) published_();
    } catch (...) {
      publish_problem_ = std::current_exception();
      failed_ = true;
    }
  }

  SaveSteps steps_;
  const tensor::SideStream& copies_;
  std::function<void()> published_;
  std::span<std::byte> memory_;
  std::thread thread_;
  std::atomic<bool> written_ = false;
  std::atomic<bool> stop_waiting_ = false;
  std::atomic<bool> failed_ = false;
  std::exception_ptr write_problem_;    // why writing failed; set before written_ becomes true
  std::exception_ptr publish_problem_;  // why publishing failed; set before the thread ends
};

BackgroundSaver::BackgroundSaver(parallel::ShardedParameters& model, const SavedState& state,
                                 bool on_host)
    : model_(model),
      staging_(allocate_staging(model, state, on_host)),
      copies_(model.mesh().device()) {}

BackgroundSaver::~BackgroundSaver() = default;

void BackgroundSaver::save(const fs::path& folder, const SavedState& state,
                           std::function<void()> published) {
  finish();
  last_ = std::make_unique<Save>(folder, state, model_, staging_, copies_, std::move(published));
}

void BackgroundSaver::finish() {
  if (!last_) return;
  const std::unique_ptr<Save> save = std::move(last_);
  save->finish();
}

bool BackgroundSaver::failed() const { return last_ && last_->failed(); }

}  // namespace am::checkpoint
