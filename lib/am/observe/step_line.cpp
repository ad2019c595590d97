#include "am/observe/step_line.h"

#include <cmath>

#include "am/base/text.h"
#include "am/base/units.h"

namespace am::observe {
namespace {

constexpr double kNewestWeight = 0.05;

// Returns `text`, or "nan" if the value is NaN, because printf writes some NaNs as "-nan".
std::string number_or_nan(double value, const std::string& text) {
  return std::isnan(value) ? "nan" : text;
}

// Returns a mean cross-entropy with its perplexity, for example "4.1151 (ppl 61.26)".
std::string loss_text(double loss) {
  return number_or_nan(
      loss, cat(format_fixed(loss, 4), " (ppl ", format_general(std::exp(loss), 4), ")"));
}

}  // namespace

void TimeLeft::add(double step_seconds, double other_seconds) {
  other_ += other_seconds;
  if (count_++ == 0) return;
  average_ = (1.0 - kNewestWeight) * average_ + kNewestWeight * step_seconds;
  weight_ = (1.0 - kNewestWeight) * weight_ + kNewestWeight;
}

std::optional<double> TimeLeft::step_seconds() const {
  if (weight_ == 0.0) return std::nullopt;
  return average_ / weight_;
}

std::optional<double> TimeLeft::seconds(int64_t steps_left) const {
  const auto step = step_seconds();
  if (!step) return std::nullopt;
  const double other = other_ / static_cast<double>(count_);
  return (*step + other) * static_cast<double>(steps_left);
}

std::string short_rate(double per_second) {
  if (!std::isfinite(per_second)) return number_or_nan(per_second, "inf");
  if (per_second < 999.5) return format_fixed(per_second, 0);
  if (per_second < 999950.0) return format_fixed(per_second / 1e3, 1) + "k";
  return format_fixed(per_second / 1e6, 2) + "M";
}

StepLine::StepLine(int64_t max_steps) : max_steps_(max_steps) {}

std::string StepLine::format(const StepMetrics& metrics) {
  time_left_.add(metrics.step_seconds, metrics.validation_seconds + metrics.saving_seconds);
  const std::string last = std::to_string(max_steps_);
  std::string step = std::to_string(metrics.step);
  if (step.size() < last.size()) step.insert(0, last.size() - step.size(), ' ');
  std::string line =
      cat("step ", step, "/", last, " | loss ",
          number_or_nan(metrics.loss, format_fixed(metrics.loss, 4)), " | norm ",
          number_or_nan(metrics.grad_norm, format_fixed(metrics.grad_norm, 3)), " | lr ",
          format_scientific(metrics.lr, 2), " | ", format_step_time(metrics.step_seconds), " | ",
          short_rate(metrics.tokens_per_second), " tok/s (",
          short_rate(metrics.tokens_per_second_per_rank), "/rank)");
  if (metrics.validation_loss) {
    line += cat(" | validation loss ", loss_text(*metrics.validation_loss));
  }
  for (const auto& [name, loss] : metrics.validation_losses) {
    line += cat(" | ", name, " ", loss_text(loss));
  }
  if (metrics.expert_load) {
    line += cat(" | experts ", format_fixed(metrics.expert_load->idlest, 2), "-",
                format_fixed(metrics.expert_load->busiest, 2), "x");
  }
  if (metrics.epochs.size() == 1) {
    line += cat(" | epoch ", format_fixed(metrics.epochs.front(), 2));
  }
  if (metrics.mfu) line += cat(" | ", format_fixed(100.0 * *metrics.mfu, 1), "% mfu");
  if (metrics.peak_memory_bytes > 0) {
    line += cat(" | mem ", format_bytes(metrics.peak_memory_bytes));
  }
  const int64_t steps_left = max_steps_ - metrics.step;
  const auto left = time_left_.seconds(steps_left);
  if (left && steps_left > 0) line += cat(" | eta ", format_duration(*left));
  return line;
}

}  // namespace am::observe
