// `break when loss > 4.5`: a comparison of a step's numbers.
#pragma once

#include <string>
#include <vector>

#include "am/observe/metrics.h"

namespace am::live {

class Condition {
 public:
  // Of the words "loss", ">", "4.5". Throws Error(kUsage) that says what there is.
  static Condition parse(const std::vector<std::string>& words);

  bool holds(const observe::StepMetrics& metrics) const;
  const std::string& text() const { return text_; }

 private:
  struct Side {
    double (*number)(const observe::StepMetrics&) = nullptr;  // null: `value`
    double value = 0.0;
  };
  static Side side(const std::string& word);

  Side left_, right_;
  std::string compare_;
  std::string text_;
};

}  // namespace am::live
