// Loss scaling for float16, as in torch.amp.GradScaler.
//
// A loss is divided by the number of labels in the batch. This can make gradients smaller than
// 6e-8, float16's smallest positive number. The loss is therefore multiplied by a scale before
// backward, and the float32 gradients are divided by the scale before any other use. If gradients
// overflow, the scale is too large: the step is skipped and the scale halved. After
// `growth_interval` steps without overflow the scale is doubled.
//
//   GradScaler scaler;
//   (loss * scaler.scale()).backward();
//   // here: divide the gradients by scaler.scale(), and check them for infinities
//   const bool steps = scaler.update(found_inf) == GradScaler::Verdict::kStep;
//   if (steps) optimizer.step(gradients, learning_rate);
#pragma once

#include <cstdint>

namespace am::optim {

// Options with the names and defaults of torch.amp.GradScaler's arguments.
struct GradScalerOptions {
  double init_scale = 65536.0;
  double growth_factor = 2.0;
  double backoff_factor = 0.5;
  int64_t growth_interval = 2000;
  bool dynamic = true;  // false: the scale is fixed
};

// State of a GradScaler, which checkpoints store.
struct LossScale {
  double scale = 65536.0;
  int64_t growth_tracker = 0;  // number of steps since the last overflow or growth

  bool operator==(const LossScale&) const = default;
};

class GradScaler {
 public:
  enum class Verdict {
    kStep,      // gradients are finite
    kBackOff,   // gradients are not finite; skip the step, a smaller scale may help
    kExhausted  // gradients are not finite, but the scale is fixed or would fall below 1
  };

  explicit GradScaler(const GradScalerOptions& options = {});

  double scale() const { return state_.scale; }
  // Adjusts the scale after the backward passes of a step, and returns whether the step is
  // performed. Must be called once per step. `found_inf`: whether any gradient is infinite or NaN;
  // must be equal on all ranks.
  Verdict update(bool found_inf);

  const LossScale& state() const { return state_; }
  // Restores the state of a run that is resumed. A fixed scale (dynamic = false) keeps its value.
  void restore(const LossScale& state);

 private:
  GradScalerOptions options_;
  LossScale state_;
};

}  // namespace am::optim
