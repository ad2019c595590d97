// Schedules as CSV files in PyTorch's format: one line per rank, one cell per slot, an empty cell
// for a bubble. There is no header, and cells contain no commas. (cluster/csv.h reads tables of
// measured runs, which have headers and commas in cells.)
//
//   0F0,0F1,,,0B0,,0B1
//   ,1F0,1B0,1F1,1B1
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "am/base/diagnostic.h"
#include "am/pipeline/schedule.h"

namespace am::pipeline {

// A schedule, and the position of each slot in the file.
struct CsvSchedule {
  Schedule schedule;
  std::string file;
  std::vector<std::string> lines;  // text of each rank's line
  // For each rank and slot: the slot's column in the line, in characters, from 1.
  std::vector<std::vector<int>> columns;

  // Returns the span of a slot, or of the rank's whole line if `slot` is absent.
  Span span(size_t rank, std::optional<size_t> slot = std::nullopt) const;
};

// Largest number of errors that are reported one by one; a note counts any further errors.
inline constexpr int kMostReported = 20;

// Parses the schedule in `text`, the contents of `file`, and validates the schedule (validate.h).
// The largest stage and the largest micro-batch in the text determine the numbers of stages and
// micro-batches. Each stage belongs to the rank on which the stage first occurs. Returns nothing
// after an error. Adds the errors to `found`, under the rules that validate() lists.
std::optional<CsvSchedule> parse_csv(std::string_view text, const std::string& file,
                                     Diagnostics& found);

// Returns the text that parse_csv parses. Lines end with "\n".
std::string to_csv(const Schedule& schedule);

}  // namespace am::pipeline
