// What is asked again after every few steps: `watch rms lm_head.weight every 10`, `tripwire nan`.
//
// A probe is of a step's own numbers, or of tensors': those come from the command `norms`, run on
// all ranks in the session of whoever asked.
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
  // Of their commands' words. Throw Error(kUsage).
  static Probe watch(const inspect::Arguments& arguments, const control::Request& request,
                     const term::Style& style);
  static Probe tripwire(const inspect::Arguments& arguments, const control::Request& request);

  bool is_watch() const { return !condition_; }
  const control::Request& request() const { return request_; }
  // After this many finished steps.
  bool is_due(int64_t steps) const { return !begun() || (steps % every_ == 0 && steps != last_); }
  // The first time is at once.
  bool begun() const { return last_ >= 0; }
  // The command whose answer add() wants; empty: a step's numbers are enough.
  std::string input() const;

  // What is there to say of this step; nothing: all is as it should be. `norms` is input()'s
  // answer.
  std::optional<std::string> add(int64_t step, const observe::StepMetrics& metrics,
                                 const Json& norms);
  // A watch has all that it was asked for; a tripwire was touched.
  bool is_over() const { return over_; }
  // Of a watch: what it saw.
  inspect::Result result() const;
  // What it waits for, for people.
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
  std::vector<std::string> names_;  // of tensors
  bool of_step_ = false;
  int64_t every_ = 1;
  int64_t times_ = 0;
  term::Style style_;
  std::optional<Condition> condition_;
  std::vector<Sample> samples_;
  int64_t last_ = -1;  // none yet
  bool over_ = false;
};

}  // namespace am::live
