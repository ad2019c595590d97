#include "am/optim/grad_scaler.h"

#include <cmath>

namespace am::optim {

namespace {

// Minimum of the scale. A scale below 1 would not prevent underflow.
constexpr double kSmallestScale = 1.0;

}  // namespace

GradScaler::GradScaler(const GradScalerOptions& options)
    : options_(options), state_{options.init_scale, 0} {}

GradScaler::Verdict GradScaler::update(bool found_inf) {
  if (found_inf) {
    const double smaller = state_.scale * options_.backoff_factor;
    if (!options_.dynamic || smaller < kSmallestScale) return Verdict::kExhausted;
    state_ = {smaller, 0};
    return Verdict::kBackOff;
  }
  if (!options_.dynamic) return Verdict::kStep;
  ++state_.growth_tracker;
  if (state_.growth_tracker >= options_.growth_interval) {
    const double larger = state_.scale * options_.growth_factor;
    // The scale does not grow beyond float32's range, as in torch.amp.GradScaler.
    if (std::isfinite(static_cast<float>(larger))) state_.scale = larger;
    state_.growth_tracker = 0;
  }
  return Verdict::kStep;
}

void GradScaler::restore(const LossScale& state) {
  if (options_.dynamic) state_ = state;
}

}  // namespace am::optim
