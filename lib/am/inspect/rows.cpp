#include "am/inspect/rows.h"

#include <algorithm>
#include <cmath>

#include "am/base/error.h"
#include "am/base/text.h"
#include "am/base/units.h"
#include "am/term/table.h"

namespace am::inspect {
namespace {

RowKind kind_of(const std::string& key, const Json& value) {
  if (value.is_number_integer()) return ends_with(key, "bytes") ? RowKind::kBytes : RowKind::kCount;
  return value.is_number() ? RowKind::kNumber : RowKind::kText;
}

bool is_right(RowKind kind) { return kind != RowKind::kText; }

// Returns whether the value is an object, or a list of lists or objects. Such a value does not fit
// into a table cell.
bool is_nested(const Json& value) {
  if (value.is_object()) return true;
  return value.is_array() && std::any_of(value.begin(), value.end(),
                                         [](const Json& each) { return each.is_structured(); });
}

// Returns whether any row has a value under `key` that is neither null nor an empty text.
bool has_values(const Json& rows, const std::string& key) {
  return std::any_of(rows.begin(), rows.end(), [&](const Json& row) {
    const auto found = row.find(key);
    return found != row.end() && !found->is_null() && *found != "";
  });
}

double sort_value(const Json& row, const std::string& key) {
  const auto found = row.find(key);
  return found != row.end() && found->is_number() ? found->get<double>() : -INFINITY;
}

}  // namespace

void Rows::sort_down(const std::string& key) {
  std::stable_sort(rows_.begin(), rows_.end(), [&](const Json& a, const Json& b) {
    return sort_value(a, key) > sort_value(b, key);
  });
}

void Rows::give(Result& result, const std::string& name, const Session& session) const {
  give_shown(result, name, session, rows_);
}

void Rows::give_shown(Result& result, const std::string& name, const Session& session,
                      const Json& shown) const {
  result.json[name] = rows_;
  result.table = {.columns = columns_, .digits = session.digits()};
  if (session.for_programs()) return;
  result.text = draw_rows(shown, columns_, session.style(), session.digits());
}

void Rows::give(Result& result, const std::string& name, const Session& session, Json rows) const {
  AM_ASSERT(rows.size() == rows_.size(), "the table and the JSON differ in their number of rows");
  give(result, name, session);
  result.json[name] = std::move(rows);
  result.table.shown = rows_;
}

std::string cell_text(const Json& value, RowKind kind, int digits) {
  if (value.is_null()) return "-";
  if (value.is_string()) return value.get<std::string>();
  if (value.is_boolean()) return value.get<bool>() ? "yes" : "no";
  if (value.is_number_integer()) {
    const auto count = value.get<int64_t>();
    return kind == RowKind::kBytes ? format_bytes(count) : format_count(count);
  }
  if (value.is_number()) return format_general(value.get<double>(), digits);
  if (is_nested(value)) return cat(value.size(), value.size() == 1 ? " entry" : " entries");
  if (value.is_array()) {
    std::vector<std::string> parts;
    for (const Json& each : value) parts.push_back(cell_text(each, RowKind::kText, digits));
    return cat("[", join(parts, ", "), "]");
  }
  return dump_json(value, -1);
}

std::string draw_rows(const Json& rows, const std::vector<RowColumn>& all, const term::Style& style,
                      int digits) {
  std::vector<RowColumn> columns;
  for (const RowColumn& column : all) {
    if (!style.window || rows.empty() || has_values(rows, column.key)) columns.push_back(column);
  }
  std::vector<term::Column> titles;
  for (const RowColumn& column : columns) {
    // In a window, names are shortened and other texts are wrapped.
    const bool wraps = style.window && column.key != "name";
    const auto left = wraps ? term::Align::kWrap : term::Align::kLeft;
    titles.push_back({column.title.empty() ? column.key : column.title,
                      is_right(column.kind) ? term::Align::kRight : left});
  }
  term::Table table(titles);
  for (const Json& row : rows) {
    std::vector<term::Cell> cells;
    for (const RowColumn& column : columns) {
      const auto found = row.find(column.key);
      const bool bad = found != row.end() && (column.key == "nan" || column.key == "inf") &&
                       found->is_number_integer() && found->get<int64_t>() > 0;
      const bool plain = !style.window && found != row.end() && found->is_number_integer();
      cells.emplace_back(found == row.end() ? ""
                         : plain            ? dump_json(*found, -1)
                                            : cell_text(*found, column.kind, digits),
                         bad ? term::Role::kError : term::Role::kPlain);
    }
    table.add(std::move(cells));
  }
  return table.text(style);
}

std::vector<RowColumn> columns_of(const Json& rows) {
  std::vector<RowColumn> columns;
  for (const Json& row : rows) {
    for (const auto& [key, value] : row.items()) {
      const auto known =
          std::find_if(columns.begin(), columns.end(),
                       [&name = key](const auto& column) { return column.key == name; });
      if (known == columns.end()) {
        columns.push_back({key, {}, kind_of(key, value)});
      } else if (known->kind ==
                 RowKind::kText) {  // the value may have been null in all previous rows
        known->kind = kind_of(key, value);
      }
    }
  }
  return columns;
}

double number_in(const Json& row, std::string_view key) {
  const auto found = row.find(std::string(key));
  return found != row.end() && found->is_number() ? found->get<double>() : std::nan("");
}

Json number_or_null(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

}  // namespace am::inspect
