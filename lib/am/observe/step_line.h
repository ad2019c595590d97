// Formats the step line, the line of a training run's output about one step. The line includes an
// estimate of the remaining time.
//
//   StepLine line(max_steps);
//   std::cerr << line.format(metrics) << '\n';
//
//   step  12/300 | loss 4.8137 | norm 1.204 | lr 1.00e-03 | 212 ms | 19.3k tok/s (9.7k/rank)
//       | mem 412.50 MiB | eta 0:01:01
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "am/observe/metrics.h"

namespace am::observe {

// Estimates the remaining time from an exponential moving average of step times. The newest step
// has weight 0.05, and the average is corrected for its initial bias towards 0. The first step is
// excluded, because it includes allocations and the set-up of connections.
class TimeLeft {
 public:
  // Adds a step. `other_seconds`: time of the step's validation and saves. seconds() adds the mean
  // of `other_seconds` over all steps so far to the time of each remaining step.
  void add(double step_seconds, double other_seconds = 0.0);
  // step_seconds() returns the average step time, and seconds() the estimated time of the remaining
  // steps, both in seconds. Both functions return nothing before the second step.
  std::optional<double> step_seconds() const;
  std::optional<double> seconds(int64_t steps_left) const;

 private:
  int64_t count_ = 0;   // number of steps, including the first
  double other_ = 0.0;  // sum of `other_seconds`
  double average_ = 0.0;
  double weight_ = 0.0;  // sum of the weights of the step times in average_
};

class StepLine {
 public:
  explicit StepLine(int64_t max_steps);
  // Returns the line of a step, and adds the step's time to the estimate of the remaining time.
  // Must be called for every step, even if the line is not printed.
  std::string format(const StepMetrics& metrics);

 private:
  int64_t max_steps_;
  TimeLeft time_left_;
};

// Formats a rate as a short text: 950 as "950", 19300 as "19.3k", 1.2e6 as "1.20M".
std::string short_rate(double per_second);

}  // namespace am::observe
