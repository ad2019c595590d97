#include "am/observe/loss_spikes.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "am/base/text.h"
#include "am/base/units.h"

namespace am::observe {

std::optional<std::string> LossSpikes::add(int64_t step, double loss) {
  if (sigma_ == 0.0 || !std::isfinite(loss)) return std::nullopt;
  std::optional<std::string> warning;
  if (2 * losses_.size() >= window_) {
    const auto count = static_cast<double>(losses_.size());
    const double mean = std::accumulate(losses_.begin(), losses_.end(), 0.0) / count;
    double squares = 0.0;
    for (const double each : losses_) squares += (each - mean) * (each - mean);
    const double deviation = std::max(std::sqrt(squares / count), 1e-3 * std::abs(mean));
    const double distance = (loss - mean) / deviation;
    const bool high = distance > sigma_;
    if (high && !high_) {
      warning = cat("loss spike: ", format_fixed(loss, 4), " at step ", step, " is ",
                    format_fixed(distance, 1), " standard deviations above the mean of the last ",
                    losses_.size(), " steps, ", format_fixed(mean, 4));
    }
    high_ = high;
  }
  losses_.push_back(loss);
  if (losses_.size() > window_) losses_.pop_front();
  return warning;
}

}  // namespace am::observe
