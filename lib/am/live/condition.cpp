#include "am/live/condition.h"

#include <array>
#include <cstdlib>

#include "am/base/error.h"
#include "am/base/text.h"

namespace am::live {

namespace {

struct Named {
  const char* name;
  double (*number)(const observe::StepMetrics&);
};

constexpr std::array kNumbers = {
    Named{"loss", [](const observe::StepMetrics& m) { return m.loss; }},
    Named{"grad_norm", [](const observe::StepMetrics& m) { return m.grad_norm; }},
    Named{"lr", [](const observe::StepMetrics& m) { return m.lr; }},
    Named{"step", [](const observe::StepMetrics& m) { return static_cast<double>(m.step); }},
    Named{"step_seconds", [](const observe::StepMetrics& m) { return m.step_seconds; }},
    Named{"tokens_per_second", [](const observe::StepMetrics& m) { return m.tokens_per_second; }},
};

}  // namespace

Condition::Side Condition::side(const std::string& word) {
  std::vector<std::string> names;
  for (const Named& each : kNumbers) {
    if (word == each.name) return {each.number, 0.0};
    names.emplace_back(each.name);
  }
  char* end = nullptr;
  const double value = std::strtod(word.c_str(), &end);
  if (!word.empty() && *end == '\0') return {nullptr, value};
  const auto near = nearest(word, names);
  throw Error(ErrorKind::kUsage, cat("`", word, "` is neither a number nor one of a step's"),
              near ? cat("did you mean `", *near, "`?") : cat("a step has ", join(names, ", ")));
}

Condition Condition::parse(const std::vector<std::string>& words) {
  if (words.size() != 3) {
    throw Error(ErrorKind::kUsage, cat("`", join(words, " "), "` is no condition"),
                "for example: break when loss > 4.5");
  }
  Condition condition;
  condition.left_ = side(words[0]);
  condition.right_ = side(words[2]);
  condition.compare_ = words[1];
  bool known = false;
  for (const char* each : {"<", "<=", ">", ">=", "==", "!="}) known = known || words[1] == each;
  if (!known) {
    throw Error(ErrorKind::kUsage, cat("`", words[1], "` does not compare"),
                "<, <=, >, >=, == or !=");
  }
  condition.text_ = join(words, " ");
  return condition;
}

bool Condition::holds(const observe::StepMetrics& metrics) const {
  const auto value = [&](const Side& side) {
    return side.number != nullptr ? side.number(metrics) : side.value;
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
