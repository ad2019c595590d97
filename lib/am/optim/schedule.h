// Learning-rate schedules: constant, cosine, linear, and warm-up-stable-decay (wsd).
#pragma once

#include <cstdint>

#include "am/config/plan.h"

namespace am::optim {

// Returns the learning rate of step `step` of `max_steps`, counted from 0. During warm-up it is lr
// * (step + 1) / warmup_steps. After warm-up, t rises linearly from 0 and reaches 1 at step
// decay_steps (at max_steps if decay_steps is 0), and the learning rate is:
//   constant   lr
//   cosine     min_lr + (lr - min_lr) * (1 + cos(pi t)) / 2
//   linear     lr + (min_lr - lr) * t
//   wsd        lr, then linear to min_lr over the last decay_steps (0: a tenth) of max_steps
double learning_rate(const config::SchedulerSection& scheduler, double lr, int64_t max_steps,
                     int64_t step);

}  // namespace am::optim
