// Parser of comma-separated values with a header: quoted fields, doubled quotes, LF or CRLF line
// ends.
//
//   for (const CsvRow& row : parse_csv(text, "runs.csv", found).rows) row.cells.at("model");
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "am/base/diagnostic.h"

namespace am::cluster {

struct CsvRow {
  std::map<std::string, std::string, std::less<>> cells;  // non-empty cells, by column
  int line = 0;
};

struct CsvTable {
  std::vector<std::string> columns;
  std::vector<CsvRow> rows;
};

// Adds "csv.syntax" for unterminated quotes and for rows longer than the header. `file` is used in
// messages only.
CsvTable parse_csv(std::string_view text, const std::string& file, Diagnostics& found);

}  // namespace am::cluster
