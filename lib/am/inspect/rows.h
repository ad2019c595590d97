// Answers that are lists of rows with equal fields: JSON for programs, a table for people.
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

  // Fields without a column appear only in JSON.
  void add(Json row) { rows_.push_back(std::move(row)); }
  Json& list() { return rows_; }
  // Sorts by the numbers under `key` in descending order; rows without one come last.
  void sort_down(const std::string& key);
  // Sets json[name] and the text.
  void give(Result& result, const std::string& name, const Session& session) const;

 private:
  std::vector<RowColumn> columns_;
  Json rows_ = Json::array();
};

// Text of a cell: "-" for null, "[2, 3]" for a list, "3 entries" for nested values, numbers with
// `digits` significant digits.
std::string cell_text(const Json& value, RowKind kind, int digits);
std::string draw_rows(const Json& rows, const std::vector<RowColumn>& columns,
                      const term::Style& style, int digits);
// Derives columns from the fields of rows, in order of first appearance.
std::vector<RowColumn> columns_of(const Json& rows);

// JSON has no NaN and infinity; they become null.
Json number_or_null(double value);

}  // namespace am::inspect
