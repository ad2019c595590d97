#include "am/live/status.h"

#include <string_view>

namespace am::live {

Status::Status() : phase_("starting") {}

void Status::phase_over(const char* phase) {
  const std::string_view over = phase;
  if (over == "forward") set_phase("backward");
  if (over == "backward") set_phase("optimizer");
  if (over == "optimizer") set_phase("forward");  // of the next step
}

void Status::stepped(const observe::StepMetrics& metrics) {
  const std::lock_guard lock(mutex_);
  last_ = metrics;
}

void Status::set_total(int64_t first_step, int64_t max_steps) {
  const std::lock_guard lock(mutex_);
  first_step_ = first_step;
  max_steps_ = max_steps;
}

void Status::set_paused(const std::string& by) {
  const std::lock_guard lock(mutex_);
  paused_ = by;
}

Json Status::to_json() const {
  const std::lock_guard lock(mutex_);
  Json json = {{"step", last_ ? last_->step : first_step_},
               {"max_steps", max_steps_},
               {"phase", phase()},
               {"loss", nullptr},
               {"step_seconds", nullptr},
               {"tokens_per_second", nullptr},
               {"paused", nullptr}};
  if (last_) {
    json["loss"] = last_->loss;
    json["step_seconds"] = last_->step_seconds;
    json["tokens_per_second"] = last_->tokens_per_second;
  }
  if (!paused_.empty()) json["paused"] = paused_;
  return json;
}

}  // namespace am::live
