// Current state of a job on one rank. The training thread writes the state, and other threads read
// it. Locks are held only while values are copied.
//
// A GPU executes work later than the host enqueues it. A phase therefore ends when the GPU has
// finished the work of the phase. An event in the compute stream signals this end.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/Event.h>

#include <atomic>
#include <deque>
#include <mutex>
#include <optional>
#include <string>

#include "am/base/json.h"
#include "am/observe/metrics.h"
#include "am/observe/step_line.h"

namespace am::live {

class Status {
 public:
  // `device` is the compute device.
  explicit Status(c10::Device device);

  // Must be called on the training thread: phase_over() from TrainerCallbacks::phase, and stepped()
  // from TrainerCallbacks::step.
  void phase_over(const char* phase);
  void stepped(const observe::StepMetrics& metrics);
  // Sets the phase immediately, and drops the recorded ends of earlier phases. The device must be
  // idle. `phase` must be a string literal, for example "between steps", because only the pointer
  // is stored.
  void set_phase(const char* phase);
  void set_total(int64_t first_step, int64_t max_steps);
  // Sets the number of finished steps, for a job that does not call stepped() after every step.
  void set_step(int64_t step) { step_ = step; }
  // Returns the number of finished steps.
  int64_t step() const;
  // Sets the text that describes who has paused the job; empty if the job is not paused.
  void set_paused(const std::string& by);

  const char* phase() const;
  // Returns an object with step, max_steps, phase, loss, step_seconds, seconds_left (until the last
  // step, including validation and saving), tokens_per_second, goodput, expert_load and paused. An
  // unknown max_steps is 0; any other unknown value is null.
  Json to_json() const;

 private:
  struct Border {
    c10::Event event;
    const char* next;  // phase that begins when the device reaches the event
  };

  c10::Device device_;
  mutable std::mutex phase_mutex_;
  mutable const char* phase_ = "starting";
  mutable std::deque<Border> borders_;  // ends of phases that the device may not have reached yet
  mutable std::mutex mutex_;
  std::optional<observe::StepMetrics> last_;
  observe::TimeLeft time_left_;
  int64_t first_step_ = 0;
  int64_t max_steps_ = 0;
  std::string paused_;
  std::atomic<int64_t> step_{-1};  // argument of set_step(); -1 before its first call
};

}  // namespace am::live
