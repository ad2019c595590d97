#include "am/live/state_dumps.h"

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "am/base/date.h"
#include "am/base/error.h"
#include "am/base/file.h"
#include "am/base/signals_blocked.h"
#include "am/base/text.h"

namespace am::live {

namespace fs = std::filesystem;

namespace {

constexpr size_t kKept = 24;

bool is_dump(const std::string& name) {
  return name.size() == 20 && name[8] == 'T' && ends_with(name, "Z.txt");
}

// Writes a file that has the current time as its name. Deletes the oldest files, so that kKept
// remain.
void write_dump(const fs::path& folder, const std::string& text) {
  fs::create_directory(behind_own_links(folder));
  write_own_file(folder / utc_date("%Y%m%dT%H%M%SZ.txt"), text);
  std::vector<fs::path> dumps;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (is_dump(entry.path().filename().string())) dumps.push_back(entry.path());
  }
  if (dumps.size() <= kKept) return;
  std::sort(dumps.begin(), dumps.end());
  dumps.resize(dumps.size() - kKept);
  for (const fs::path& each : dumps) fs::remove(each);
}

}  // namespace

// Writes the reports to files. Outlives StateDumps while a report is not complete.
struct StateDumps::Writer {
  fs::path folder;
  std::function<void(const std::string& line)> log;
  std::mutex mutex;
  bool failed = false;
  bool closed = false;
  bool waiting = false;  // whether a report is not complete yet

  void write(const std::string& text) {
    const std::lock_guard lock(mutex);
    waiting = false;
    if (closed) return;
    try {
      write_dump(folder, text);
    } catch (const std::exception& error) {
      if (!std::exchange(failed, true))
        log(cat("the ranks' states are not written: ", error.what()));
    }
  }
};

struct StateDumps::Shared {
  std::shared_ptr<Writer> writer = std::make_shared<Writer>();
  std::function<void(const Use& use)> report;
  std::mutex mutex;
  std::condition_variable changed;
  bool ending = false;
  std::thread thread;

  void run(std::chrono::duration<double> interval) {
    const auto time = std::chrono::duration_cast<std::chrono::steady_clock::duration>(interval);
    std::unique_lock lock(mutex);
    while (!changed.wait_for(lock, time, [&] { return ending; })) {
      // A report takes seconds if ranks do not answer. Reports must not queue up.
      {
        const std::lock_guard writing(writer->mutex);
        if (std::exchange(writer->waiting, true)) continue;
      }
      report([writer = writer](const std::string& text) { writer->write(text); });
    }
  }
};

StateDumps::StateDumps(std::chrono::duration<double> interval, fs::path folder,
                       std::function<void(const Use& use)> report,
                       std::function<void(const std::string& line)> log)
    : shared_(std::make_unique<Shared>()) {
  shared_->writer->folder = std::move(folder);
  shared_->writer->log = std::move(log);
  shared_->report = std::move(report);
  const SignalsBlocked blocked;
  shared_->thread = std::thread([this, interval] { shared_->run(interval); });
}

StateDumps::~StateDumps() {
  {
    const std::lock_guard lock(shared_->mutex);
    shared_->ending = true;
  }
  shared_->changed.notify_all();
  shared_->thread.join();
  const std::lock_guard lock(shared_->writer->mutex);
  shared_->writer->closed = true;
}

}  // namespace am::live
