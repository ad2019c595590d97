// What a job is doing, for whoever asks while it does it: written by the training thread, read by
// others, behind a lock that neither holds for longer than a copy.
#pragma once

#include <atomic>
#include <mutex>
#include <optional>
#include <string>

#include "am/base/json.h"
#include "am/observe/metrics.h"

namespace am::live {

class Status {
 public:
  Status();

  // As TrainerCallbacks say it.
  void phase_over(const char* phase);
  void stepped(const observe::StepMetrics& metrics);
  // "between steps", "paused by .."; must be a literal.
  void set_phase(const char* phase) { phase_.store(phase, std::memory_order_relaxed); }
  void set_total(int64_t first_step, int64_t max_steps);
  // Empty: it is not paused.
  void set_paused(const std::string& by);

  const char* phase() const { return phase_.load(std::memory_order_relaxed); }
  // step, max_steps, phase, loss, step_seconds, paused.
  Json to_json() const;

 private:
  std::atomic<const char*> phase_;
  mutable std::mutex mutex_;
  std::optional<observe::StepMetrics> last_;
  int64_t first_step_ = 0;
  int64_t max_steps_ = 0;
  std::string paused_;
};

}  // namespace am::live
