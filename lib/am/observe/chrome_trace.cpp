#include "am/observe/chrome_trace.h"

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <fstream>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "am/base/number.h"
#include "am/base/text.h"

namespace am::observe {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kBegin = "\"ts\": ", kLength = "\"dur\": ";

// Returns the text that follows `before` in a line, up to the first character that is in `ends`, or
// up to the end of the line. Empty if the line does not contain `before`.
std::string_view between(std::string_view line, std::string_view before, std::string_view ends) {
  const size_t at = line.find(before);
  if (at == std::string_view::npos) return {};
  const size_t first = at + before.size();
  return line.substr(first, line.find_first_of(ends, first) - first);
}

// Parses microseconds with three decimals, for example "12.345", and returns nanoseconds. Returns
// nothing if `text` has another form.
std::optional<int64_t> nanoseconds(std::string_view text) {
  const size_t point = text.find('.');
  if (point == std::string_view::npos || text.size() != point + 4) return std::nullopt;
  return parse_integer(cat(text.substr(0, point), text.substr(point + 1)));
}

std::string microseconds(int64_t nanoseconds) {
  std::string text = std::to_string(nanoseconds);
  if (text.size() < 4) text.insert(0, 4 - text.size(), '0');
  return text.insert(text.size() - 3, ".");
}

// Begin and end of an event, in nanoseconds. In the trace, the event's keys "ts" and "dur" are in
// the line after the event's name.
struct Span {
  int64_t begin = 0, end = 0;
};

std::optional<Span> span_in(std::string_view line) {
  const auto begin = nanoseconds(between(line, kBegin, ","));
  const auto length = nanoseconds(between(line, kLength, ","));
  if (!begin || !length) return std::nullopt;
  return Span{*begin, *begin + *length};
}

// Calls `visit` with each line of the file and the line before it, which is empty for the first
// line.
void for_each_line(
    const fs::path& file,
    const std::function<void(const std::string& before, const std::string& line)>& visit) {
  std::ifstream in(file);
  std::string before, line;
  while (std::getline(in, line)) {
    visit(before, line);
    std::swap(before, line);
  }
  if (in.bad() || !in.eof()) {
    throw fs::filesystem_error("cannot read", file,
                               std::error_code(errno, std::generic_category()));
  }
}

// The events of autograd in a trace, sorted by begin, for each thread. In each event, autograd runs
// the backward of one operator.
class Evaluations {
 public:
  explicit Evaluations(const fs::path& trace) {
    constexpr std::string_view kName = "\"name\": \"autograd::engine::evaluate_function: ";
    for_each_line(trace, [&](const std::string& before, const std::string& line) {
      if (before.find(kName) == std::string::npos) return;
      if (const auto span = span_in(line)) spans_[thread_of(before)].push_back(*span);
    });
    for (auto& [thread, spans] : spans_) {
      std::sort(spans.begin(), spans.end(),
                [](const Span& a, const Span& b) { return a.begin < b.begin; });
    }
  }

  static std::string thread_of(std::string_view line) {
    return std::string(between(line, "\"tid\": ", ","));
  }

  // Returns the begin of the event that contains `moment`, or `moment` itself if there is no event
  // at this time.
  int64_t begin_around(const std::string& thread, int64_t moment) const {
    const auto found = spans_.find(thread);
    if (found == spans_.end()) return moment;
    const auto after =
        std::upper_bound(found->second.begin(), found->second.end(), moment,
                         [](int64_t value, const Span& span) { return value < span.begin; });
    if (after == found->second.begin() || std::prev(after)->end <= moment) return moment;
    return std::prev(after)->begin;
  }

 private:
  std::map<std::string, std::vector<Span>> spans_;
};

}  // namespace

void copy_nested(const fs::path& from, const fs::path& to) {
  const Evaluations evaluations(from);
  std::ofstream out(to, std::ios::trunc);
  for_each_line(from, [&](const std::string& before, const std::string& line) {
    const bool moves =
        before.find("\"cat\": \"user_annotation\", \"name\": \"backward ") != std::string::npos;
    const auto span = moves ? span_in(line) : std::nullopt;
    if (span) {
      const std::string thread = Evaluations::thread_of(before);
      const int64_t begin = evaluations.begin_around(thread, span->begin);
      const int64_t end = evaluations.begin_around(thread, span->end);
      const size_t rest = line.find(',', line.find(kLength));
      out << line.substr(0, line.find(kBegin)) << kBegin << microseconds(begin) << ", " << kLength
          << microseconds(std::max(end, begin) - begin) << line.substr(rest);
    } else {
      out << line;
    }
    out << '\n';
  });
  out.close();
  if (!out) {
    throw fs::filesystem_error("cannot write", to, std::error_code(errno, std::generic_category()));
  }
}

}  // namespace am::observe
