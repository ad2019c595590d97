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
  std::vector<std::string> lines;         // per rank
  std::vector<std::vector<int>> columns;  // per rank and slot, in characters, from 1

  // Returns the span of a slot, or of the whole line without one.
  Span span(size_t rank, std::optional<size_t> slot = std::nullopt) const;
};

// Number of errors that are reported individually; a note counts the rest.
inline constexpr int kMostReported = 20;

// Parses and validates (validate.h) a schedule. The numbers of stages and micro-batches are taken
// from the file, and each stage belongs to the rank on which it first occurs. Returns nothing after
// an error; `found` has the errors, under the rules of validate().
std::optional<CsvSchedule> parse_csv(std::string_view text, const std::string& file,
                                     Diagnostics& found);

// Inverse of parse_csv. Lines end with "\n".
std::string to_csv(const Schedule& schedule);

}  // namespace am::pipeline
