#include "am/live/probe.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <span>
#include <utility>

#include "am/base/error.h"
#include "am/base/number.h"
#include "am/base/text.h"
#include "am/base/units.h"
#include "am/inspect/rows.h"
#include "am/term/line_plot.h"

namespace am::live {

namespace {

constexpr std::array<std::string_view, 6> kTensorNames = {"l1", "l2", "max", "rms", "nan", "inf"};
constexpr int kCurveColumns = 30;  // width of the curve beside a sample
constexpr int kPlotRows = 8;

// Removes "every N" from the end of the words and returns N. Returns 1 if the words do not end with
// "every N".
int64_t take_every(std::vector<std::string>& words) {
  if (words.size() < 2 || words[words.size() - 2] != "every") {
    if (words.empty() || words.back() != "every") return 1;
    throw Error(ErrorKind::kUsage, "`every` needs a number of steps", "for example: every 10");
  }
  const auto every = parse_integer(words.back());
  if (!every || *every < 1) {
    throw Error(ErrorKind::kUsage, cat("`every ", words.back(), "` is not a number of steps"),
                "for example: every 10");
  }
  words.resize(words.size() - 2);
  return *every;
}

}  // namespace

const Numbers& tensor_numbers() {
  static constexpr Numbers kNumbers{"tensor", kTensorNames, "tripwire max > 100"};
  return kNumbers;
}

Probe Probe::watch(const inspect::Arguments& arguments, const control::Request& request,
                   const term::Style& style) {
  constexpr int64_t kMostTimes = 10'000;
  Probe probe;
  probe.request_ = request;
  probe.style_ = style;
  probe.times_ = arguments.integer("--times", 20, 1, kMostTimes);
  std::vector<std::string> words = arguments.words;
  probe.every_ = take_every(words);
  if (words.empty())
    throw Error(ErrorKind::kUsage, "`watch` needs the name of a number", "for example: watch loss");
  probe.measure_ = words.front();
  probe.names_.assign(words.begin() + 1, words.end());
  probe.of_step_ = step_numbers().has(probe.measure_);
  if (probe.of_step_ && !probe.names_.empty()) {
    throw Error(ErrorKind::kUsage,
                cat("`", probe.measure_, "` is a metric of the step, so no tensor may follow it: `",
                    probe.names_.front(), "`"));
  }
  if (!probe.of_step_ && !tensor_numbers().has(probe.measure_)) {
    std::vector<std::string> all(step_numbers().names.begin(), step_numbers().names.end());
    all.insert(all.end(), kTensorNames.begin(), kTensorNames.end());
    const auto near = nearest(probe.measure_, all);
    throw Error(
        ErrorKind::kUsage, cat("there is no number `", probe.measure_, "` to watch"),
        near ? cat("did you mean `", *near, "`?") : cat("the numbers are ", join(all, ", ")));
  }
  return probe;
}

Probe Probe::tripwire(const inspect::Arguments& arguments, const control::Request& request) {
  Probe probe;
  probe.request_ = request;
  std::vector<std::string> words = arguments.words;
  probe.every_ = take_every(words);
  const bool is_short = !words.empty() && words.front() == "nan" &&
                        (words.size() == 1 || !Condition::compares(words[1]));
  if (is_short) words.insert(words.begin() + 1, {">", "0"});
  const auto names = words.begin() + std::min<std::ptrdiff_t>(3, std::ssize(words));
  probe.condition_ = Condition::parse({words.begin(), names}, tensor_numbers());
  probe.names_.assign(names, words.end());
  return probe;
}

std::string Probe::input() const {
  return of_step_ ? std::string() : cat("norms ", join(names_, " "));
}

std::string Probe::text() const {
  const std::string names = names_.empty() ? std::string() : cat(" of ", join(names_, " "));
  const std::string every =
      every_ == 1 ? std::string(", after every step") : cat(", every ", every_, " steps");
  return cat(condition_ ? condition_->text() : measure_, names, every);
}

std::optional<std::string> Probe::add(int64_t step, const observe::StepMetrics& metrics,
                                      const Json& norms) {
  last_ = step;
  if (condition_) return tripped(step, norms);
  const auto value = of_step_ ? step_number(metrics, measure_)
                              : std::optional(inspect::number_in(norms.at("total"), measure_));
  return value ? sampled(step, *value) : std::nullopt;
}

std::optional<std::string> Probe::sampled(int64_t step, double value) {
  samples_.push_back({step, value});
  over_ = std::ssize(samples_) >= times_;
  const auto count = std::min<std::ptrdiff_t>(kCurveColumns, std::ssize(samples_));
  std::vector<double> last;
  for (auto each = samples_.end() - count; each != samples_.end(); ++each) {
    last.push_back(each->value);
  }
  return cat("step ", step, "  ", measure_, " ", format_general(value, 5), "  ",
             style_.paint(term::Role::kAccent, term::sparkline(last, kCurveColumns, style_)));
}

std::optional<std::string> Probe::tripped(int64_t step, const Json& norms) {
  std::vector<std::string> found;
  for (const Json& row : norms.at("norms")) {
    const auto number = [&](std::string_view name) { return inspect::number_in(row, name); };
    if (condition_->holds(number)) found.push_back(row.at("name").get<std::string>());
  }
  if (found.empty()) return std::nullopt;
  over_ = true;
  std::string text = cat("step ", step, ": ", condition_->text(), " holds for ", found.front());
  if (found.size() > 1) text += cat(" and ", found.size() - 1, " more tensors");
  return text;
}

inspect::Result Probe::result() const {
  inspect::Result result;
  Json list = Json::array();
  term::Curve curve{measure_, {}, {}};
  for (const Sample& each : samples_) {
    list.push_back({{"step", each.step}, {"value", inspect::number_or_null(each.value)}});
    curve.x.push_back(static_cast<double>(each.step));
    curve.y.push_back(each.value);
  }
  result.json = {{"measure", measure_}, {"names", names_}, {"every", every_}, {"samples", list}};
  result.text = samples_.empty()
                    ? "no step was watched\n"
                    : cat(text(), "\n", term::line_plot(std::span(&curve, 1), kPlotRows, style_));
  return result;
}

}  // namespace am::live
