// Detects steps whose loss is far above the losses of the preceding steps.
//
//   LossSpikes spikes(/*sigma=*/6.0, /*window=*/128);
//   if (auto warning = spikes.add(step, loss)) log(*warning);
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>

namespace am::observe {

class LossSpikes {
 public:
  // A loss is a spike if it exceeds the mean of the preceding losses (at most `window`) by more
  // than `sigma` standard deviations of these losses. A standard deviation below a thousandth of
  // the mean's absolute value counts as a thousandth. `sigma` 0: no loss is a spike.
  LossSpikes(double sigma, int64_t window) : sigma_(sigma), window_(static_cast<size_t>(window)) {}

  // Returns a warning if the loss of `step` is a spike and the previous loss was not. No loss is a
  // spike before window / 2 losses are known. Losses that are not finite are ignored.
  std::optional<std::string> add(int64_t step, double loss);

 private:
  double sigma_;
  size_t window_;
  std::deque<double> losses_;
  bool high_ = false;  // whether the last loss was a spike
};

}  // namespace am::observe
