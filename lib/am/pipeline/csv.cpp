#include "am/pipeline/csv.h"

#include <algorithm>

#include "am/base/text.h"
#include "am/pipeline/validate.h"

namespace am::pipeline {
namespace {

// Reports the first kMostReported errors, then the number of further errors.
class Report {
 public:
  explicit Report(Diagnostics& found) : found_(found) {}

  void error(const std::string& rule, Span span, std::string message, std::string help = {}) {
    if (++count_ > kMostReported) {
      next_rule_ = next_rule_.empty() ? rule : next_rule_;
      return;
    }
    found_.error(rule, std::move(span), std::move(message), std::move(help));
  }

  void close(const std::string& file) {
    if (count_ <= kMostReported) return;
    found_.add({.rule = next_rule_,
                .severity = Severity::kNote,
                .span = {.file = file},
                .message = cat("and ", count_ - kMostReported, " more errors in this schedule"),
                .help = {}});
  }

 private:
  Diagnostics& found_;
  int count_ = 0;
  std::string next_rule_;  // rule of the first error that was not reported
};

std::vector<std::string> lines_of(std::string_view text) {
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
  if (starts_with(text, kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  std::vector<std::string> lines = split(text, '\n');
  for (std::string& line : lines) {
    if (ends_with(line, "\r")) line.pop_back();
  }
  while (!lines.empty() && trim(lines.back()).empty()) lines.pop_back();
  return lines;
}

// Removes optional quotes around a cell.
std::string_view unquoted(std::string_view cell) {
  const std::string_view inner = trim(cell);
  const bool quoted = inner.size() >= 2 && inner.front() == '"' && inner.back() == '"';
  return quoted ? inner.substr(1, inner.size() - 2) : cell;
}

void parse_line(CsvSchedule& csv, size_t rank, Report& report) {
  const std::string_view line = csv.lines[rank];
  auto& slots = csv.schedule.ranks.emplace_back();
  auto& columns = csv.columns.emplace_back();
  // Errors of this line, as slot and message. They are reported after the loop, because a span
  // needs the columns of the whole line.
  std::vector<std::pair<size_t, std::string>> wrong;
  int column = 1;
  for (size_t begin = 0; begin <= line.size();) {
    const size_t end = std::min(line.find(',', begin), line.size());
    const std::string_view cell = line.substr(begin, end - begin);
    std::string why;
    const auto slot = parse_slot(unquoted(cell), &why);
    if (!slot.has_value()) {
      wrong.emplace_back(slots.size(), cat("\"", trim(cell), "\" is not an action: ", why));
    }
    columns.push_back(column);
    slots.push_back(slot.value_or(Slot()));
    column += character_count(cell) + 1;
    begin = end + 1;
  }
  for (auto& [slot, message] : wrong) {
    report.error("schedule.syntax", csv.span(rank, slot), std::move(message));
  }
}

// Sets the schedule's numbers of stages and micro-batches, and the rank of each stage. Returns
// false after an error.
bool count_sizes(CsvSchedule& csv, Report& report) {
  Schedule& schedule = csv.schedule;
  // In a complete schedule, every stage has a pass on every micro-batch. Neither the number of
  // stages nor the number of micro-batches can thus exceed the number of passes, which is at most
  // two per slot. Larger numbers are rejected before tables of their size are allocated.
  int64_t passes = 0;
  for (const auto& list : schedule.ranks) passes += 2 * static_cast<int64_t>(list.size());
  bool sane = true;
  for (size_t rank = 0; rank < schedule.ranks.size(); ++rank) {
    for (size_t i = 0; i < schedule.ranks[rank].size(); ++i) {
      for (const Action& action : schedule.ranks[rank][i].actions()) {
        if (action.stage >= passes || action.micro_batch >= passes) {
          report.error("schedule.passes", csv.span(rank, i),
                       cat(to_string(action),
                           " names a stage or micro-batch that is too large for a file of ",
                           passes / 2, " slots"));
          sane = false;
          continue;
        }
        if (action.stage >= schedule.stages()) {
          schedule.owners.resize(static_cast<size_t>(action.stage) + 1, -1);
        }
        int64_t& owner = schedule.owners[static_cast<size_t>(action.stage)];
        if (owner < 0) owner = static_cast<int64_t>(rank);
        schedule.microbatches = std::max<int64_t>(schedule.microbatches, action.micro_batch + 1);
      }
    }
  }
  // Rejects only sizes that need far more passes than the file contains. If a few passes are
  // missing, validate() reports them.
  if (sane && schedule.stages() > 4 * passes / std::max<int64_t>(1, schedule.microbatches)) {
    report.error("schedule.passes", Span{.file = csv.file},
                 cat("the file names ", schedule.stages(), " stages and ", schedule.microbatches,
                     " micro-batches, but has only ", passes / 2, " slots"));
    sane = false;
  }
  return sane;
}

}  // namespace

Span CsvSchedule::span(size_t rank, std::optional<size_t> slot) const {
  constexpr size_t kLongestSource = 1 << 16;  // longer lines are not quoted in the report
  Span span{.file = file, .line = static_cast<int>(rank) + 1, .column = 1};
  if (lines[rank].size() <= kLongestSource) span.source = lines[rank];
  if (!slot.has_value()) return span;
  span.column = columns[rank][*slot];
  const bool is_last = *slot + 1 == columns[rank].size();
  const int after = is_last ? character_count(lines[rank]) + 2 : columns[rank][*slot + 1];
  span.length = std::max(1, after - span.column - 1);
  return span;
}

std::optional<CsvSchedule> parse_csv(std::string_view text, const std::string& file,
                                     Diagnostics& found) {
  const int before = found.errors();
  Report report(found);
  CsvSchedule csv;
  csv.file = file;
  csv.schedule.name = file;
  csv.lines = lines_of(text);
  if (csv.lines.empty()) {
    found.error("schedule.syntax", Span{.file = file},
                "the file has no line: a schedule has one line per rank");
    return std::nullopt;
  }
  for (size_t rank = 0; rank < csv.lines.size(); ++rank) parse_line(csv, rank, report);
  if (found.errors() == before && count_sizes(csv, report)) {
    for (Violation& violation : validate(csv.schedule)) {
      report.error(violation.rule, csv.span(violation.rank, violation.slot),
                   std::move(violation.message), std::move(violation.help));
    }
  }
  report.close(file);
  if (found.errors() > before) return std::nullopt;
  return csv;
}

std::string to_csv(const Schedule& schedule) {
  std::string text;
  for (const auto& list : schedule.ranks) {
    for (size_t i = 0; i < list.size(); ++i) {
      if (i > 0) text += ',';
      text += to_string(list[i]);
    }
    text += '\n';
  }
  return text;
}

}  // namespace am::pipeline
