// Conditions such as `break when loss > 4.5` and `tripwire max > 100`: a comparison of named
// numbers.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "am/observe/metrics.h"

namespace am::live {

// The names that a condition may compare.
struct Numbers {
  std::string_view of;  // "step"
  std::span<const std::string_view> names;
  std::string_view example;

  bool has(std::string_view name) const;
};
// loss, grad_norm, lr, step, step_seconds, tokens_per_second
const Numbers& step_numbers();
double step_number(const observe::StepMetrics& metrics, std::string_view name);

class Condition {
 public:
  // Parses words such as "loss", ">", "4.5". Throws Error(kUsage) that lists the valid names.
  static Condition parse(const std::vector<std::string>& words, const Numbers& numbers);

  static bool compares(std::string_view word);  // whether `word` is "<", ">=", ..
  bool holds(const std::function<double(std::string_view name)>& number) const;
  const std::string& text() const { return text_; }

 private:
  struct Side {
    std::string name;  // empty: the side is `value`
    double value = 0.0;
  };
  static Side side(const std::string& word, const Numbers& numbers);

  Side left_, right_;
  std::string compare_;
  std::string text_;
};

}  // namespace am::live
