#include "am/draw/timeline_trace.h"

#include "am/base/text.h"
#include "am/base/units.h"

namespace am::draw {
namespace {

const char* category(pipeline::Kind kind) {
  switch (kind) {
    case pipeline::Kind::kForward:
      return "forward";
    case pipeline::Kind::kBackwardInput:
      return "backward_input";
    case pipeline::Kind::kBackwardWeight:
      return "backward_weight";
    default:
      return "backward";
  }
}

// Formats a time of the timeline in microseconds, the unit of Chrome traces. One unit of the
// timeline counts as 1 ms.
std::string microseconds(double units) { return format_fixed(units * 1000.0, 3); }

}  // namespace

// Writes JSON by concatenation instead of a JSON library, because a large schedule has a million
// events. No text needs escaping: the names of passes, for example "2F0", are letters and digits.
std::string to_chrome_trace(const pipeline::Timeline& timeline) {
  std::string text = "{\"traceEvents\":[";
  const char* separator = "\n";
  for (size_t rank = 0; rank < timeline.ranks.size(); ++rank) {
    text += cat(separator, R"({"name":"process_name","ph":"M","pid":)", rank, R"(,"tid":)", rank,
                R"(,"args":{"name":"rank )", rank, "\"}}");
    separator = ",\n";
    for (const pipeline::Event& event : timeline.ranks[rank]) {
      text += cat(R"(,
{"name":")",
                  to_string(event.action), R"(","cat":")", category(event.action.kind),
                  R"(","ph":"X","pid":)", rank, R"(,"tid":)", rank, R"(,"ts":)",
                  microseconds(event.start), R"(,"dur":)", microseconds(event.end - event.start),
                  R"(,"args":{"stage":)", event.action.stage, R"(,"micro_batch":)",
                  event.action.micro_batch, "}}");
    }
  }
  return text + "\n],\"displayTimeUnit\":\"ms\"}\n";
}

}  // namespace am::draw
