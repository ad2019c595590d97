// Loss scaling for float16, whose smallest number is 6e-8: torch.amp.GradScaler's rule.
//
// A loss is divided by the labels of the whole batch, so most of its gradients would be zero in
// float16. It is multiplied with a scale before backward, and the float32 gradients are divided by
// it again before anybody looks at them. A scale that is too large overflows: that step is left
// out and the scale halved. After `growth_interval` steps without, it is doubled.
//
//   GradScaler scaler;
//   (loss * scaler.scale()).backward();
//   if (scaler.update(found_inf) == GradScaler::Verdict::kStep) optimizer.step(..);
#pragma once

#include <cstdint>

namespace am::optim {

// torch.amp.GradScaler's arguments and defaults.
struct GradScalerOptions {
  double init_scale = 65536.0;
  double growth_factor = 2.0;
  double backoff_factor = 0.5;
  int64_t growth_interval = 2000;
  bool dynamic = true;  // false: the scale stays
};

// What a checkpoint keeps of it.
struct LossScale {
  double scale = 65536.0;
  int64_t growth_tracker = 0;  // steps without overflow since the scale changed

  bool operator==(const LossScale&) const = default;
};

class GradScaler {
 public:
  enum class Verdict {
    kStep,      // the gradients are finite
    kBackOff,   // they are not, and a smaller scale may mend it: leave the step out
    kExhausted  // they are not, for another reason: the scale would fall below 1, or is fixed
  };

  explicit GradScaler(const GradScalerOptions& options = {});

  double scale() const { return state_.scale; }
  // Once a step, after its gradients; the same `found_inf` on every rank.
  Verdict update(bool found_inf);

  const LossScale& state() const { return state_; }
  // Of a resumed run. A fixed scale stays what it is.
  void restore(const LossScale& state);

 private:
  GradScalerOptions options_;
  LossScale state_;
};

}  // namespace am::optim
