#include "am/inspect/training_answers.h"

#include <limits>

#include "am/base/error.h"
#include "am/base/number.h"
#include "am/base/text.h"
#include "am/base/units.h"
#include "am/inspect/rows.h"
#include "am/term/table.h"

namespace am::inspect {

int64_t steps_in(const Arguments& arguments) {
  constexpr int64_t kMostSteps = 1'000'000'000;
  if (arguments.words.empty()) return 1;
  const auto number = parse_integer(arguments.words.front());
  if (number && *number >= 1 && *number <= kMostSteps) return *number;
  throw Error(ErrorKind::kUsage, cat("`", arguments.words.front(), "` is not a number of steps"),
              "for example: step 10");
}

Result step_result(const observe::StepMetrics& last, std::string_view then) {
  Result result;
  result.json = {{"step", last.step},
                 {"loss", number_or_null(last.loss)},
                 {"grad_norm", number_or_null(last.grad_norm)}};
  result.text =
      cat("step ", last.step, ": loss ", last.loss, ", gradient norm ", last.grad_norm, then, "\n");
  return result;
}

std::string draw_collectives(const std::string& title, const Json& collectives, bool few,
                             const term::Style& style) {
  term::Table table({{title},
                     {"number", term::Align::kRight},
                     {"group"},
                     {"bytes", term::Align::kRight},
                     {"issued", term::Align::kRight},
                     {""}});
  const size_t most = few ? 4 : std::numeric_limits<size_t>::max();
  size_t shown = 0;
  for (const Json& each : collectives) {
    if (shown++ == most) break;
    table.add({each.at("op").get<std::string>(), cat("#", each.at("sequence").get<uint64_t>()),
               each.at("group").get<std::string>(), format_bytes(each.at("bytes").get<int64_t>()),
               cat(format_duration(each.at("seconds_ago").get<double>()), " ago"),
               each.at("waiting").get<bool>() ? "waits" : ""});
  }
  return table.text(style);
}

}  // namespace am::inspect
