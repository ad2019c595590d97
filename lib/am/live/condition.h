// Parses and evaluates conditions, which compare named numbers with constants or with each other.
// Examples are `loss > 4.5` in the command `break when loss > 4.5`, and `max > 100` in the command
// `tripwire max > 100`.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "am/observe/metrics.h"

namespace am::live {

// Names of the numbers that a condition can compare.
struct Numbers {
  std::string_view of;  // what the numbers describe, for example "step"
  std::span<const std::string_view> names;
  std::string_view example;  // command with a condition, shown after an error

  bool has(std::string_view name) const;
};
// Returns the names of the metrics of a training step, for example "loss", "grad_norm" and
// "step_seconds".
const Numbers& step_numbers();
// Returns the metric `name` of a step; nullopt if the step does not have this metric, for example
// if no validation ran.
std::optional<double> step_number(const observe::StepMetrics& metrics, std::string_view name);

class Condition {
 public:
  // Parses a condition of three words, for example "loss", ">" and "4.5". Throws Error(kUsage) for
  // words that are not a condition on `numbers`.
  static Condition parse(const std::vector<std::string>& words, const Numbers& numbers);

  // Returns whether `word` is a comparison operator: "<", "<=", ">", ">=", "==" or "!=".
  static bool compares(std::string_view word);
  // Returns whether the condition is true; false if a number of the condition is absent. `number`
  // must return the current value of the number with the given name, or nothing if that number is
  // absent.
  using Lookup = std::function<std::optional<double>(std::string_view name)>;
  bool holds(const Lookup& number) const;
  const std::string& text() const { return text_; }

 private:
  struct Side {
    std::string name;  // name of a number; empty if this side is the constant `value`
    double value = 0.0;
  };
  static Side side(const std::string& word, const Numbers& numbers);

  Side left_, right_;
  std::string compare_;
  std::string text_;
};

}  // namespace am::live
