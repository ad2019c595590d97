#include "am/checkpoint/background_saver.h"

#include <atomic>
#include <chrono>
#include <exception>
#include <span>
#include <thread>
#include <utility>

#include "am/base/direct_file.h"
#include "am/checkpoint/save_steps.h"

namespace am::checkpoint {

namespace fs = std::filesystem;

struct BackgroundSaver::Staging {
  AlignedMemory memory;
  size_t size = 0;

  std::span<std::byte> of(size_t bytes) {
    if (bytes > size) {
      memory.reset();
      memory = allocate_aligned(bytes);
      size = bytes;
    }
    return {memory.get(), bytes};
  }
};

// Note [Who waits for whom]. A rank's thread writes its file and its report, which needs nobody.
// Rank 0's then waits for all reports, which come unless a rank has failed: so finish() first has
// every rank say whether it could write, and only when one could not is rank 0 told to wait no
// more. A rank that dies ends the job, and this process with it.
class BackgroundSaver::Save {
 public:
  Save(const fs::path& folder, const SavedState& state, parallel::ParallelModel& model,
       Staging& staging, std::function<void()> published)
      : steps_(folder, state, model), published_(std::move(published)) {
    memory_ = staging.of(steps_.file().bytes());
    steps_.file().stage(memory_);
    thread_ = std::thread([this] { run(); });
  }

  ~Save() {
    stop_waiting_ = true;
    if (thread_.joinable()) thread_.join();
  }

  // Collective.
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
      while (!all_have_reported(steps_.folder(), steps_.world_size())) {
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
  std::function<void()> published_;
  std::span<std::byte> memory_;
  std::thread thread_;
  std::atomic<bool> written_ = false;
  std::atomic<bool> stop_waiting_ = false;
  std::atomic<bool> failed_ = false;
  std::exception_ptr write_problem_;    // before written_
  std::exception_ptr publish_problem_;  // before the thread ends
};

BackgroundSaver::BackgroundSaver(parallel::ParallelModel& model)
    : model_(model), staging_(std::make_unique<Staging>()) {}

BackgroundSaver::~BackgroundSaver() = default;

void BackgroundSaver::save(const fs::path& folder, const SavedState& state,
                           std::function<void()> published) {
  finish();
  last_ = std::make_unique<Save>(folder, state, model_, *staging_, std::move(published));
}

void BackgroundSaver::finish() {
  if (!last_) return;
  const std::unique_ptr<Save> save = std::move(last_);
  save->finish();
}

bool BackgroundSaver::failed() const { return last_ && last_->failed(); }

int64_t BackgroundSaver::staging_bytes() const { return static_cast<int64_t>(staging_->size); }

}  // namespace am::checkpoint
