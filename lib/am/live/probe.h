// Probes repeat a question every few steps: `watch rms lm_head.weight every 10`, `tripwire nan`.
//
// A probe reads either a step's metrics or tensors. The values of tensors come from the command
// `norms`, run on all ranks in the session of the client that asked.
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

// l1, l2, max, rms, nan, inf
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
  // Returns whether the probe runs after this many finished steps.
  bool is_due(int64_t steps) const { return !begun() || (steps % every_ == 0 && steps != last_); }
  // The first run is immediate.
  bool begun() const { return last_ >= 0; }
  // Returns the command whose answer add() needs; empty if a step's metrics suffice.
  std::string input() const;

  // Returns the message about this step; nothing if there is none. `norms` is the answer to
  // input().
  std::optional<std::string> add(int64_t step, const observe::StepMetrics& metrics,
                                 const Json& norms);
  // Returns whether a watch has all its samples or a tripwire was triggered.
  bool is_over() const { return over_; }
  // Returns the samples of a watch.
  inspect::Result result() const;
  // Returns a description of the probe for people.
  std::string text() const;

 private:
  struct Sample {
    int64_t step;
    double value;
  };
  std::optional<std::string> sampled(int64_t step, double value);
  std::optional<std::string> tripped(int64_t step, const Json& norms);

  control::Request request_;
  std::string measure_;             // of a watch
  std::vector<std::string> names_;  // names of tensors
  bool of_step_ = false;
  int64_t every_ = 1;
  int64_t times_ = 0;
  term::Style style_;
  std::optional<Condition> condition_;
  std::vector<Sample> samples_;
  int64_t last_ = -1;  // -1: not run yet
  bool over_ = false;
};

}  // namespace am::live
