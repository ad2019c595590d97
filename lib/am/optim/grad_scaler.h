// Loss scaling for float16, whose smallest number is 6e-8, by the rule of torch.amp.GradScaler.
//
// A loss is divided by the number of labels in the batch, so most gradients would underflow in
// float16. The loss is multiplied by a scale before backward, and the float32 gradients are divided
// by the scale before any other use. If the scale is too large, gradients overflow: the step is
// skipped and the scale halved. After `growth_interval` steps without overflow it is doubled.
//
//   GradScaler scaler;
//   (loss * scaler.scale()).backward();
//   const bool steps = scaler.update(found_inf) == GradScaler::Verdict::kStep;
//   if (steps) optimizer.step(gradients, learning_rate);
#pragma once

#include <cstdint>

namespace am::optim {

// Arguments of torch.amp.GradScaler, with its defaults.
struct GradScalerOptions {
  double init_scale = 65536.0;
  double growth_factor = 2.0;
  double backoff_factor = 0.5;
  int64_t growth_interval = 2000;
  bool dynamic = true;  // whether the scale changes; false: it stays fixed
};

// State of a GradScaler, which checkpoints store.
struct LossScale {
  double scale = 65536.0;
  int64_t growth_tracker = 0;  // number of steps without overflow since the scale changed

  bool operator==(const LossScale&) const = default;
};

class GradScaler {
 public:
  enum class Verdict {
    kStep,      // gradients are finite
    kBackOff,   // gradients are not finite; skip the step, a smaller scale may help
    kExhausted  // gradients are not finite, and the scale cannot be lowered: it would fall below 1,
                // or is fixed
  };

  explicit GradScaler(const GradScalerOptions& options = {});

  double scale() const { return state_.scale; }
  // Adjusts the scale and returns the verdict on the step. Call once per step, after backward;
  // `found_inf` must be equal on every rank.
  Verdict update(bool found_inf);

  const LossScale& state() const { return state_; }
  // Restores the state of a resumed run; a fixed scale (dynamic = false) is not changed.
  void restore(const LossScale& state);

 private:
  GradScalerOptions options_;
  LossScale state_;
};

}  // namespace am::optim
