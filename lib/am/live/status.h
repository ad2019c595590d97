// Current state of a job, written by the training thread and read by others. Its lock is held only
// for copies.
//
// A GPU runs behind the host: a phase is over when the GPU has finished the work enqueued until
// then, which an event in the compute stream shows.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/Event.h>

#include <deque>
#include <mutex>
#include <optional>
#include <string>

#include "am/base/json.h"
#include "am/observe/metrics.h"

namespace am::live {

class Status {
 public:
  // `device`: the compute device.
  explicit Status(c10::Device device);

  // Called on the training thread, as by TrainerCallbacks.
  void phase_over(const char* phase);
  void stepped(const observe::StepMetrics& metrics);
  // Sets the phase at once and forgets the queued ends of phases; the device must be idle. Keeps
  // the pointer: pass a string literal, such as "between steps".
  void set_phase(const char* phase);
  void set_total(int64_t first_step, int64_t max_steps);
  // Empty: the job is not paused.
  void set_paused(const std::string& by);

  const char* phase() const;
  // step, max_steps, phase, loss, step_seconds, tokens_per_second, goodput, paused.
  Json to_json() const;

 private:
  struct Border {
    c10::Event event;
    const char* next;  // the phase after this border
  };

  c10::Device device_;
  mutable std::mutex phase_mutex_;
  mutable const char* phase_ = "starting";
  mutable std::deque<Border> borders_;  // ends of phases that the device may not have reached
  mutable std::mutex mutex_;
  std::optional<observe::StepMetrics> last_;
  int64_t first_step_ = 0;
  int64_t max_steps_ = 0;
  std::string paused_;
};

}  // namespace am::live
