#include "am/live/condition.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>

#include "am/base/error.h"
#include "am/base/text.h"

namespace am::live {

namespace {

constexpr std::array<std::string_view, 6> kStepNames = {
    "loss", "grad_norm", "lr", "step", "step_seconds", "tokens_per_second"};

constexpr std::array<std::string_view, 6> kComparisons = {"<", "<=", ">", ">=", "==", "!="};

}  // namespace

const Numbers& step_numbers() {
  static constexpr Numbers kNumbers{"step", kStepNames, "break when loss > 4.5"};
  return kNumbers;
}

double step_number(const observe::StepMetrics& metrics, std::string_view name) {
  if (name == "loss") return metrics.loss;
  if (name == "grad_norm") return metrics.grad_norm;
  if (name == "lr") return metrics.lr;
  if (name == "step") return static_cast<double>(metrics.step);
  if (name == "step_seconds") return metrics.step_seconds;
  if (name == "tokens_per_second") return metrics.tokens_per_second;
  return std::nan("");
}

Condition::Side Condition::side(const std::string& word, const Numbers& numbers) {
  const std::vector<std::string> names(numbers.names.begin(), numbers.names.end());
  if (std::find(names.begin(), names.end(), word) != names.end()) return {word, 0.0};
  char* end = nullptr;
  const double value = std::strtod(word.c_str(), &end);
  if (!word.empty() && *end == '\0') return {{}, value};
  const auto near = nearest(word, names);
  throw Error(ErrorKind::kUsage,
              cat("`", word, "` is neither a number nor one of a ", numbers.of, "'s"),
              near ? cat("did you mean `", *near, "`?")
                   : cat("a ", numbers.of, " has ", join(names, ", ")));
}

bool Condition::compares(std::string_view word) {
  return std::find(kComparisons.begin(), kComparisons.end(), word) != kComparisons.end();
}

Condition Condition::parse(const std::vector<std::string>& words, const Numbers& numbers) {
  if (words.size() != 3) {
    throw Error(ErrorKind::kUsage, cat("`", join(words, " "), "` is no condition"),
                cat("for example: ", numbers.example));
  }
  Condition condition;
  condition.left_ = side(words[0], numbers);
  condition.right_ = side(words[2], numbers);
  condition.compare_ = words[1];
  if (!compares(words[1])) {
    throw Error(ErrorKind::kUsage, cat("`", words[1], "` does not compare"),
                "<, <=, >, >=, == or !=");
  }
  condition.text_ = join(words, " ");
  return condition;
}

bool Condition::holds(const std::function<double(std::string_view name)>& number) const {
  const auto value = [&](const Side& side) {
    return side.name.empty() ? side.value : number(side.name);
  };
  const double left = value(left_);
  const double right = value(right_);
  if (compare_ == "<") return left < right;
  if (compare_ == "<=") return left <= right;
  if (compare_ == ">") return left > right;
  if (compare_ == ">=") return left >= right;
  return (left == right) == (compare_ == "==");
}

}  // namespace am::live
