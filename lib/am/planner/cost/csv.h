// Comma-separated values with a header: quoted fields, doubled quotes, line ends of either kind.
//
//   const CsvTable table = parse_csv(text, "runs.csv", found);
//   table.rows[0].text("model"); table.rows[0].number("tp");
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "am/base/diagnostic.h"

namespace am::planner {

class CsvRow {
 public:
  CsvRow(std::shared_ptr<const std::map<std::string, size_t, std::less<>>> columns,
         std::vector<std::string> cells, int line)
      : columns_(std::move(columns)), cells_(std::move(cells)), line_(line) {}

  // Empty where the column or the cell is missing.
  const std::string& text(std::string_view column) const;
  // Nothing where the cell is empty or no finite number.
  std::optional<double> number(std::string_view column) const;
  int line() const { return line_; }

 private:
  std::shared_ptr<const std::map<std::string, size_t, std::less<>>> columns_;
  std::vector<std::string> cells_;
  int line_;
};

struct CsvTable {
  std::vector<std::string> columns;
  std::vector<CsvRow> rows;
};

// Adds "csv.syntax" for a quote that is not closed and for rows longer than the header; `file` is
// only named.
CsvTable parse_csv(std::string_view text, const std::string& file, Diagnostics& found);

}  // namespace am::planner
