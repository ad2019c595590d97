// Builds answers that are lists of rows with the same fields: JSON for programs, and a table for
// people.
//
//   Rows rows({{"name"}, {"norm", "norm", RowKind::kNumber}});
//   rows.add({{"name", name}, {"norm", 5.2}});
//   rows.give(result, "norms", session);   // result.json["norms"], result.text
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "am/base/json.h"
#include "am/inspect/command.h"

namespace am::inspect {

class Rows {
 public:
  explicit Rows(std::vector<RowColumn> columns) : columns_(std::move(columns)) {}

  // Adds a row, which is a JSON object. Fields without a column appear only in the JSON answer.
  void add(Json row) { rows_.push_back(std::move(row)); }
  Json& list() { return rows_; }
  // Sorts the rows by the number under `key`, largest first. Rows without a number come last.
  void sort_down(const std::string& key);
  // Sets result.json[name] to the rows, and result.table to the columns. Sets result.text to the
  // table, but not if session.for_programs() is true.
  void give(Result& result, const std::string& name, const Session& session) const;
  // Like give(), but draws the rows `shown` in the table, instead of the rows of the JSON answer.
  void give_shown(Result& result, const std::string& name, const Session& session,
                  const Json& shown) const;
  // Like give(), but sets result.json[name] to `rows`, one JSON object for each row of the table.
  void give(Result& result, const std::string& name, const Session& session, Json rows) const;

 private:
  std::vector<RowColumn> columns_;
  Json rows_ = Json::array();
};

// Returns the text of a table cell: "-" for null, "yes" or "no" for a boolean, a floating-point
// number with `digits` significant digits, or a list such as "[2, 3]". An integer is a size such as
// "1.21 KiB" if `kind` is kBytes, otherwise a count such as "8 030". An object, or a list that
// contains objects or lists, is reduced to its number of entries, for example "3 entries".
std::string cell_text(const Json& value, RowKind kind, int digits);
// Returns the rows as a table. In a window (Style::window), columns without values are left out.
// Elsewhere, for example if a shell pipe reads stdout, counts and bytes are plain integers.
std::string draw_rows(const Json& rows, const std::vector<RowColumn>& columns,
                      const term::Style& style, int digits);
// Returns one column per field that occurs in any row, in order of first appearance.
std::vector<RowColumn> columns_of(const Json& rows);

// Returns the number in the field `key`; NaN if the field is missing or is not a number.
double number_in(const Json& row, std::string_view key);
// Returns the number, or null if it is NaN or infinite, which JSON cannot represent.
Json number_or_null(double value);

}  // namespace am::inspect
