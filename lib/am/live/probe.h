// Implements the commands `watch` and `tripwire`, which read numbers every few steps: for example
// `watch rms lm_head.weight every 10`, or `tripwire nan`. A watch sends samples of one number to
// the client; a tripwire pauses the job when its condition is true for a tensor.
//
// A probe is one `watch` or `tripwire` command of a client. A watch reads either a metric of the
// step or tensors; a tripwire reads tensors. To read tensors, all ranks run the command `norms` in
// the session of the client.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "am/base/json.h"
#include "am/control/server.h"
#include "am/inspect/command.h"
#include "am/live/condition.h"
#include "am/observe/metrics.h"
#include "am/term/style.h"

namespace am::live {

// Returns the names of the numbers that describe a tensor: l1, l2, max, rms, nan and inf.
const Numbers& tensor_numbers();

class Probe {
 public:
  // Make a probe from the words of a `watch` or `tripwire` command. Throw Error(kUsage) for invalid
  // words.
  static Probe watch(const inspect::Arguments& arguments, const control::Request& request,
                     const term::Style& style);
  static Probe tripwire(const inspect::Arguments& arguments, const control::Request& request);

  bool is_watch() const { return !condition_; }
  const control::Request& request() const { return request_; }
  // Returns whether the probe must run now, when `steps` steps are finished.
  bool is_due(int64_t steps) const { return !begun() || (steps % every_ == 0 && steps != last_); }
  // Returns the next number of finished steps, after `steps`, at which the probe is due.
  int64_t next_due(int64_t steps) const {
    return begun() ? (steps / every_ + 1) * every_ : steps + 1;
  }
  // Returns whether the probe has run at least once. A new probe runs at the current step, even if
  // this step is not a multiple of N in `every N`.
  bool begun() const { return last_ >= 0; }
  // Returns the command whose result add() needs; empty if the metrics of the step suffice.
  std::string input() const;

  // Processes a step. Returns a message for the client: the sample of a watch, or the reason why a
  // tripwire was triggered. Returns nothing if the step yields no sample and does not trigger the
  // tripwire. `norms` is the answer of the command that input() returns.
  std::optional<std::string> add(int64_t step, const observe::StepMetrics& metrics,
                                 const Json& norms);
  // Returns whether the probe has ended: a watch has all its samples, or a tripwire was triggered.
  bool is_over() const { return over_; }
  // Returns the samples of a watch, with a plot.
  inspect::Result result() const;
  // Returns a description of the probe for the user.
  std::string text() const;

 private:
  struct Sample {
    int64_t step;
    double value;
  };
  std::optional<std::string> sampled(int64_t step, double value);
  std::optional<std::string> tripped(int64_t step, const Json& norms);

  control::Request request_;
  std::string measure_;             // name of the number that a watch samples
  std::vector<std::string> names_;  // names of the tensors that the probe reads
  bool of_step_ = false;            // whether a watch samples a step's metrics instead of tensors
  int64_t every_ = 1;               // number of steps from one run to the next
  int64_t times_ = 0;               // number of samples after which a watch ends
  term::Style style_;
  std::optional<Condition> condition_;  // condition of a tripwire; empty for a watch
  std::vector<Sample> samples_;
  int64_t last_ = -1;  // number of finished steps at the last run; -1 before the first run
  bool over_ = false;
};

}  // namespace am::live
