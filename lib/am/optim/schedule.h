// Learning-rate schedules: constant, cosine, linear, and warm-up-stable-decay (wsd).
#pragma once

#include <cstdint>

#include "am/config/plan.h"

namespace am::optim {

// Returns the learning rate of step `step`, counted from 0, in a run of `max_steps` steps. `lr` is
// the peak learning rate. During warm-up, the learning rate is lr * (step + 1) / warmup_steps.
// After warm-up, the learning rate is:
//   constant   lr
//   cosine     min_lr + (lr - min_lr) * (1 + cos(pi t)) / 2
//   linear     lr + (min_lr - lr) * t
//   wsd        lr, then linear to min_lr during the last decay_steps steps of the run, or during
//              the last tenth of the run if decay_steps is 0; the decay never overlaps warm-up
// In cosine and linear, t rises linearly from 0 at the end of warm-up to 1 at step decay_steps, or
// at step max_steps if decay_steps is 0.
double learning_rate(const config::SchedulerSection& scheduler, double lr, int64_t max_steps,
                     int64_t step);

}  // namespace am::optim
