// Answers that are lists: rows with the same fields, JSON for programs and a table for people.
//
//   Rows rows({{"name"}, {"norm", "norm", RowKind::kNumber}});
//   rows.add({{"name", name}, {"norm", 5.2}});
//   rows.give(result, "norms", session);   // result.json["norms"], result.text
#pragma once

#include <string>
#include <vector>

#include "am/base/json.h"
#include "am/inspect/command.h"

namespace am::inspect {

enum class RowKind { kText, kCount, kNumber, kBytes };

struct RowColumn {
  std::string key;    // in the row's object
  std::string title;  // empty: the key
  RowKind kind = RowKind::kText;
};

class Rows {
 public:
  explicit Rows(std::vector<RowColumn> columns) : columns_(std::move(columns)) {}

  // Fields without a column are for programs alone.
  void add(Json row) { rows_.push_back(std::move(row)); }
  Json& list() { return rows_; }
  // By the numbers under `key`, the largest first; those without one last.
  void sort_down(const std::string& key);
  // Sets json[name] and the text.
  void give(Result& result, const std::string& name, const Session& session) const;

 private:
  std::vector<RowColumn> columns_;
  Json rows_ = Json::array();
};

// What a cell shows: "-" for null, "[2, 3]" for a list, "3 entries" for what is nested, numbers
// with so many significant digits.
std::string cell_text(const Json& value, RowKind kind, int digits);
std::string draw_rows(const Json& rows, const std::vector<RowColumn>& columns,
                      const term::Style& style, int digits);
// Columns for the fields of rows of any command, in their order.
std::vector<RowColumn> columns_of(const Json& rows);

// JSON has no NaN and no infinity: null.
Json number_or_null(double value);

}  // namespace am::inspect
