// Schedules as CSV files in PyTorch's form: one line a rank, one cell a slot, an empty cell a
// bubble. There is no header, and cells have no commas: tables of measured runs, which have both,
// are read by planner/cost/csv.h.
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

// A schedule and where each of its slots stands.
struct CsvSchedule {
  Schedule schedule;
  std::string file;
  std::vector<std::string> lines;         // by rank
  std::vector<std::vector<int>> columns;  // by rank and slot, in characters from 1

  // The place of a slot, or with no slot of the whole line.
  Span span(size_t rank, std::optional<size_t> slot = std::nullopt) const;
};

// As many errors are reported one by one; of those beyond, a note gives the number.
inline constexpr int kMostReported = 20;

// Reads and validates (validate.h): stages and micro-batches are as many as the file names, and
// each stage lives where its first action stands. Nothing when an error was found; what is wrong is
// in `found`, under the rules of validate().
std::optional<CsvSchedule> parse_csv(std::string_view text, const std::string& file,
                                     Diagnostics& found);

// The reverse. Lines end with "\n".
std::string to_csv(const Schedule& schedule);

}  // namespace am::pipeline
