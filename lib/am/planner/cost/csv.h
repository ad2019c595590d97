// Comma-separated values with a header: quoted fields, doubled quotes, line ends of either kind.
//
//   for (const CsvRow& row : parse_csv(text, "runs.csv", found).rows) row.cells.at("model");
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "am/base/diagnostic.h"

namespace am::planner {

struct CsvRow {
  std::map<std::string, std::string, std::less<>> cells;  // those that are not empty, by column
  int line = 0;
};

struct CsvTable {
  std::vector<std::string> columns;
  std::vector<CsvRow> rows;
};

// Adds "csv.syntax" for a quote that is not closed and for rows longer than the header; `file` is
// only named.
CsvTable parse_csv(std::string_view text, const std::string& file, Diagnostics& found);

}  // namespace am::planner
