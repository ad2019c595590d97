// Defines the command `calc`, which computes expressions of statistics of tensors. NAMES are
// operands that pick_all() resolves to tensors. The grammar of an expression is:
//
//   expression  term {(+ | -) term}
//   term        factor {(* | /) factor}
//   factor      number | MEASURE ( NAMES ) | ( expression ) | - factor
#include <cctype>
#include <cmath>
#include <cstdlib>
#include <string_view>

#include "am/base/text.h"
#include "am/base/text_cursor.h"
#include "am/base/units.h"
#include "am/inspect/words.h"
#include "am/values/commands/functions.h"
#include "am/values/scan.h"

namespace am::values {
namespace {

// Statistic that is computed over the values of all named tensors together.
struct Measure {
  std::string_view name;
  double (*of)(const Moments& moments);
};
constexpr Measure kMeasures[] = {
    {"norm", [](const Moments& all) { return all.norm(); }},
    {"l1", [](const Moments& all) { return all.absolutes; }},
    {"rms", [](const Moments& all) { return all.rms(); }},
    {"absmax", [](const Moments& all) { return all.max_abs(); }},
    {"min", [](const Moments& all) { return all.finite() > 0 ? all.min : std::nan(""); }},
    {"max", [](const Moments& all) { return all.finite() > 0 ? all.max : std::nan(""); }},
    {"mean", [](const Moments& all) { return all.finite() > 0 ? all.mean : std::nan(""); }},
    {"std", [](const Moments& all) { return all.std(); }},
    {"sum", [](const Moments& all) { return all.mean * static_cast<double>(all.finite()); }},
    {"nan", [](const Moments& all) { return static_cast<double>(all.nan); }},
    {"inf", [](const Moments& all) { return static_cast<double>(all.inf); }},
    {"numel", [](const Moments& all) { return static_cast<double>(all.numel); }},
};

std::string measure_names() {
  std::vector<std::string> names;
  for (const Measure& measure : kMeasures) names.emplace_back(measure.name);
  return join(names, ", ");
}

// Evaluates an expression. Reads the expression's tensors from left to right, in the same order on
// all ranks. Collective.
class Calculation {
 public:
  Calculation(Session& session, std::string_view text) : session_(session), at_(text) {}

  double value() {
    const double result = expression(0);
    if (at_.peek() != '\0') fail(cat("`", at_.rest(), "` is left over after the expression"));
    return result;
  }

 private:
  static constexpr int kDeepest = 64;

  [[noreturn]] void fail(const std::string& what) const {
    throw Error(ErrorKind::kUsage, cat("calc: ", what),
                cat("use numbers, + - * / ( ), and these measures of NAMES: ", measure_names(),
                    "; for example calc norm(w[:4]) / norm(w)"));
  }

  double expression(int depth) {
    if (depth == kDeepest) fail(cat("at least ", kDeepest, " nested brackets, which is too many"));
    double sum = term(depth);
    for (;;) {
      if (at_.take('+')) {
        sum += term(depth);
      } else if (at_.take('-')) {
        sum -= term(depth);
      } else {
        return sum;
      }
    }
  }

  double term(int depth) {
    double product = factor(depth);
    for (;;) {
      if (at_.take('*')) {
        product *= factor(depth);
      } else if (at_.take('/')) {
        product /= factor(depth);
      } else {
        return product;
      }
    }
  }

  double factor(int depth) {
    bool negative = false;
    while (at_.take('-')) negative = !negative;
    const double value = unsigned_factor(depth);
    return negative ? -value : value;
  }

  double unsigned_factor(int depth) {
    if (at_.take('(')) {
      const double value = expression(depth + 1);
      if (!at_.take(')')) fail("a bracket is not closed");
      return value;
    }
    const char c = at_.peek();
    if (c == '.' || std::isdigit(static_cast<unsigned char>(c)) != 0) return number();
    if (std::isalpha(static_cast<unsigned char>(c)) != 0) return measure();
    fail(c == '\0' ? std::string("a value is missing at the end")
                   : cat("`", at_.rest(), "` is not the beginning of a value"));
  }

  double number() {
    const std::string rest(at_.rest());
    char* end = nullptr;
    const double value = std::strtod(rest.c_str(), &end);
    if (end == rest.c_str()) fail(cat("`", rest, "` is not a number"));
    at_.pass(static_cast<size_t>(end - rest.c_str()));
    return value;
  }

  double measure() {
    const std::string_view name =
        at_.take_while([](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; });
    const Measure* found = nullptr;
    for (const Measure& each : kMeasures) {
      if (each.name == name) found = &each;
    }
    if (found == nullptr) fail(cat("`", name, "` is not a measure"));
    if (!at_.take('(')) fail(cat("`", name, "` needs NAMES in brackets"));
    const size_t close = at_.rest().find(')');
    if (close == std::string_view::npos) fail("a bracket is not closed");
    const std::string names(at_.pass(close));
    at_.pass(1);
    Moments all;
    for (const Picked& picked : pick_all(session_, inspect::split_words(names))) {
      all.merge(moments_of(session_, picked));
    }
    return found->of(all);
  }

  Session& session_;
  TextCursor at_;
};

}  // namespace

Result run_calc(Session& session, const Arguments& arguments) {
  const std::string text = arguments.text();
  const double value = Calculation(session, text).value();
  Result result;
  result.json = {{"expression", text}, {"value", number_or_null(value)}};
  result.text = cat(format_general(value, session.digits()), "\n");
  return result;
}

}  // namespace am::values
