#include "am/live/status.h"

#include <c10/core/impl/VirtualGuardImpl.h>

#include <string_view>
#include <utility>

#include "am/inspect/rows.h"
#include "am/tensor/side_stream.h"

namespace am::live {

namespace {

const char* phase_after(std::string_view over) {
  if (over == "forward") return "backward";
  if (over == "backward") return "optimizer";
  return "forward";  // forward pass of the next step
}

}  // namespace

Status::Status(c10::Device device) : device_(device) {}

void Status::phase_over(const char* phase) {
  const char* next = phase_after(phase);
  if (!tensor::is_asynchronous(device_)) return set_phase(next);
  Border border{c10::Event(device_.type()), next};
  border.event.record(c10::impl::VirtualGuardImpl(device_.type()).getStream(device_));
  const std::lock_guard lock(phase_mutex_);
  borders_.push_back(std::move(border));
}

void Status::set_phase(const char* phase) {
  const std::lock_guard lock(phase_mutex_);
  borders_.clear();
  phase_ = phase;
}

const char* Status::phase() const {
  const std::lock_guard lock(phase_mutex_);
  while (!borders_.empty() && borders_.front().event.query()) {
    phase_ = borders_.front().next;
    borders_.pop_front();
  }
  return phase_;
}

void Status::stepped(const observe::StepMetrics& metrics) {
  const std::lock_guard lock(mutex_);
  last_ = metrics;
  time_left_.add(metrics.step_seconds, metrics.validation_seconds + metrics.saving_seconds);
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

int64_t Status::step() const {
  if (const int64_t step = step_; step >= 0) return step;
  const std::lock_guard lock(mutex_);
  return last_ ? last_->step : first_step_;
}

Json Status::to_json() const {
  const int64_t steps = step();
  const std::lock_guard lock(mutex_);
  Json json = {{"step", steps},         {"max_steps", max_steps_}, {"phase", phase()},
               {"loss", nullptr},       {"step_seconds", nullptr}, {"tokens_per_second", nullptr},
               {"goodput", nullptr},    {"seconds_left", nullptr}, {"paused", nullptr},
               {"expert_load", nullptr}};
  if (last_) {
    json["loss"] = inspect::number_or_null(last_->loss);
    json["step_seconds"] = inspect::number_or_null(last_->step_seconds);
    json["tokens_per_second"] = inspect::number_or_null(last_->tokens_per_second);
    if (last_->goodput) json["goodput"] = *last_->goodput;
    if (last_->expert_load) json["expert_load"] = observe::to_json(*last_->expert_load);
    const auto left = time_left_.seconds(max_steps_ - steps);
    if (left && steps < max_steps_) json["seconds_left"] = *left;
  }
  if (!paused_.empty()) json["paused"] = paused_;
  return json;
}

}  // namespace am::live
