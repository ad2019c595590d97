#include "am/live/condition.h"

#include <algorithm>
#include <array>

#include "am/base/error.h"
#include "am/base/number.h"
#include "am/base/text.h"

namespace am::live {

namespace {

using Number = std::optional<double>;

struct Named {
  std::string_view name;
  Number (*number)(const observe::StepMetrics&);
};

constexpr std::array kOfStep = {
    Named{"loss", [](const observe::StepMetrics& m) -> Number { return m.loss; }},
    Named{"grad_norm", [](const observe::StepMetrics& m) -> Number { return m.grad_norm; }},
    Named{"lr", [](const observe::StepMetrics& m) -> Number { return m.lr; }},
    Named{"step",
          [](const observe::StepMetrics& m) -> Number { return static_cast<double>(m.step); }},
    Named{"step_seconds", [](const observe::StepMetrics& m) -> Number { return m.step_seconds; }},
    Named{"tokens_per_second",
          [](const observe::StepMetrics& m) -> Number { return m.tokens_per_second; }},
    Named{"expert_load",
          [](const observe::StepMetrics& m) {
            return m.expert_load ? Number(m.expert_load->busiest) : Number();
          }},
    Named{"validation_loss",
          [](const observe::StepMetrics& m) -> Number { return m.validation_loss; }},
    Named{"aux_loss", [](const observe::StepMetrics& m) -> Number { return m.aux_loss; }},
    Named{"skipped_steps",
          [](const observe::StepMetrics& m) -> Number {
            return static_cast<double>(m.skipped_steps);
          }},
    Named{"mfu", [](const observe::StepMetrics& m) -> Number { return m.mfu; }},
};

constexpr auto kStepNames = [] {
  std::array<std::string_view, kOfStep.size()> names;
  for (size_t i = 0; i < names.size(); ++i) names[i] = kOfStep[i].name;
  return names;
}();

}  // namespace

bool Numbers::has(std::string_view name) const {
  return std::find(names.begin(), names.end(), name) != names.end();
}

const Numbers& step_numbers() {
  static constexpr Numbers kNumbers{"step", kStepNames, "break when loss > 4.5"};
  return kNumbers;
}

std::optional<double> step_number(const observe::StepMetrics& metrics, std::string_view name) {
  for (const Named& each : kOfStep) {
    if (each.name == name) return each.number(metrics);
  }
  return std::nullopt;
}

Condition::Side Condition::side(const std::string& word, const Numbers& numbers) {
  if (numbers.has(word)) return {word, 0.0};
  if (const auto value = parse_number(word)) return {{}, *value};
  const std::vector<std::string> names(numbers.names.begin(), numbers.names.end());
  const auto near = nearest(word, names);
  throw Error(ErrorKind::kUsage,
              cat("`", word, "` is neither a number nor a measure of a ", numbers.of),
              near ? cat("did you mean `", *near, "`?")
                   : cat("the measures of a ", numbers.of, " are ", join(names, ", ")));
}

bool Condition::compares(std::string_view word) {
  return std::find(kComparisons.begin(), kComparisons.end(), word) != kComparisons.end();
}

Condition Condition::parse(const std::vector<std::string>& words, const Numbers& numbers) {
  if (words.size() != 3) {
    throw Error(ErrorKind::kUsage, cat("`", join(words, " "), "` is not a condition"),
                cat("for example: ", numbers.example));
  }
  Condition condition;
  condition.left_ = side(words[0], numbers);
  condition.right_ = side(words[2], numbers);
  condition.compare_ = words[1];
  if (!compares(words[1])) {
    throw Error(ErrorKind::kUsage, cat("`", words[1], "` is not a comparison"),
                "<, <=, >, >=, == or !=");
  }
  condition.text_ = join(words, " ");
  return condition;
}

bool Condition::holds(const Lookup& number) const {
  const auto value = [&](const Side& side) {
    return side.name.empty() ? std::optional(side.value) : number(side.name);
  };
  const auto left = value(left_), right = value(right_);
  return left && right && compare(*left, compare_, *right);
}

}  // namespace am::live
