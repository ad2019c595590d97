#include "am/optim/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace am::optim {

namespace {

// Returns (step - first) / (last - first), limited to [0, 1].
double progress(int64_t step, int64_t first, int64_t last) {
  if (last <= first) return step < last ? 0.0 : 1.0;
  const double done = static_cast<double>(step - first) / static_cast<double>(last - first);
  return std::clamp(done, 0.0, 1.0);
}

}  // namespace

double learning_rate(const config::SchedulerSection& scheduler, double lr, int64_t max_steps,
                     int64_t step) {
  const int64_t warmup = scheduler.warmup_steps;
  if (step < warmup) return lr * static_cast<double>(step + 1) / static_cast<double>(warmup);
  if (scheduler.name == "wsd") {
    const int64_t length =
        scheduler.decay_steps > 0 ? scheduler.decay_steps : std::max<int64_t>(1, max_steps / 10);
    const int64_t first = std::max(warmup, max_steps - length);
    return lr + (scheduler.min_lr - lr) * progress(step, first, max_steps);
  }
  const int64_t last = scheduler.decay_steps > 0 ? scheduler.decay_steps : max_steps;
  const double t = progress(step, warmup, last);
  if (scheduler.name == "cosine") {
    return scheduler.min_lr +
           (lr - scheduler.min_lr) * 0.5 * (1.0 + std::cos(std::numbers::pi * t));
  }
  if (scheduler.name == "linear") return lr + (scheduler.min_lr - lr) * t;
  return lr;
}

}  // namespace am::optim
