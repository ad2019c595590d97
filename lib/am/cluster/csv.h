// Parses CSV files whose first nonempty line contains the names of the columns. Supports quoted
// cells, doubled quotes inside quoted cells, and LF or CRLF at line ends.
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
  std::map<std::string, std::string, std::less<>> cells;  // nonempty cells, by column name
  int line = 0;  // number of the row's first line in the file
};

struct CsvTable {
  std::vector<std::string> columns;
  std::vector<CsvRow> rows;
};

// Parses the text of a CSV file, and removes blanks around cells. Adds an error "csv.syntax" to
// `found` for an unterminated quote, and for each row with more cells than the header; the result
// omits rows with too many cells. `file`: name of the file, for messages only.
CsvTable parse_csv(std::string_view text, const std::string& file, Diagnostics& found);

}  // namespace am::cluster
