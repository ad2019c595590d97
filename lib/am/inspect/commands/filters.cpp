// Defines the filters that may follow a pipe, for example `stats | sort norm | head 3`. A filter
// changes the list of objects (rows) in an answer.
#include <algorithm>
#include <string_view>
#include <utility>

#include "am/base/number.h"
#include "am/base/text.h"
#include "am/inspect/commands/table.h"
#include "am/inspect/rows.h"

namespace am::inspect {
namespace {

void require_key(const Json& rows, const std::string& key) {
  std::vector<std::string> keys;
  for (const RowColumn& column : columns_of(rows)) keys.push_back(column.key);
  if (rows.empty() || std::find(keys.begin(), keys.end(), key) != keys.end()) return;
  const auto near = nearest(key, keys);
  throw Error(
      ErrorKind::kUsage, cat("the rows have no field `", key, "`"),
      near ? cat("did you mean `", *near, "`?") : cat("their fields are ", join(keys, ", ")));
}

int64_t row_count(const Arguments& arguments) {
  if (arguments.words.empty()) return 10;
  const auto count = parse_integer(arguments.words.front());
  if (!count || *count < 0) {
    throw Error(ErrorKind::kUsage, cat("`", arguments.words.front(), "` is not a number of rows"));
  }
  return *count;
}

// Returns whether value `a` is sorted before `b`: numbers in descending order, strings in natural
// order, null last.
bool sorts_before(const Json& a, const Json& b) {
  if (a.is_number() && b.is_number()) return a.get<double>() > b.get<double>();
  if (a.is_string() && b.is_string()) {
    return natural_less(a.get<std::string>(), b.get<std::string>());
  }
  if (a.is_boolean() && b.is_boolean()) return a.get<bool>() < b.get<bool>();
  return !a.is_null() && b.is_null();
}

}  // namespace

void sort_rows(Json& rows, const Arguments& arguments) {
  const std::string& key = arguments.words.front();
  require_key(rows, key);
  const auto value = [&](const Json& row) { return row.contains(key) ? row[key] : Json(nullptr); };
  std::stable_sort(rows.begin(), rows.end(), [&](const Json& a, const Json& b) {
    const Json left = value(a);
    const Json right = value(b);
    if (left.is_null() || right.is_null() || !arguments.has("--up")) {
      return sorts_before(left, right);
    }
    return sorts_before(right, left);
  });
}

void head_rows(Json& rows, const Arguments& arguments) {
  const int64_t count = row_count(arguments);
  if (count < static_cast<int64_t>(rows.size())) rows.erase(rows.begin() + count, rows.end());
}

void tail_rows(Json& rows, const Arguments& arguments) {
  const int64_t left_out = static_cast<int64_t>(rows.size()) - row_count(arguments);
  if (left_out > 0) rows.erase(rows.begin(), rows.begin() + left_out);
}

// Keeps the rows of which at least one field contains the text or matches it as a glob.
void grep_rows(Json& rows, const Arguments& arguments) {
  const std::string text = arguments.text();
  Json kept = Json::array();
  for (const Json& row : rows) {
    const bool has = std::any_of(row.begin(), row.end(), [&](const Json& value) {
      const std::string shown = cell_text(value, RowKind::kText, 17);
      return shown.find(text) != std::string::npos || glob_match(text, shown);
    });
    if (has) kept.push_back(row);
  }
  rows = std::move(kept);
}

// Keeps the rows whose number under a key is in the stated relation to a value.
void where_rows(Json& rows, const Arguments& arguments) {
  const std::string& key = arguments.words[0];
  const std::string relation = arguments.words[1] == "=" ? "==" : arguments.words[1];
  require_key(rows, key);
  const auto wanted = parse_number(arguments.words[2]);
  const bool known =
      std::find(kComparisons.begin(), kComparisons.end(), relation) != kComparisons.end();
  if (!wanted || !known) {
    throw Error(ErrorKind::kUsage, cat("`", arguments.text(), "` is not a condition"),
                "where KEY <|<=|>|>=|=|!= NUMBER, for example where norm > 3");
  }
  Json kept = Json::array();
  for (const Json& row : rows) {
    const auto found = row.find(key);
    const bool holds = found != row.end() && found->is_number() &&
                       compare(found->get<double>(), relation, *wanted);
    if (holds) kept.push_back(row);
  }
  rows = std::move(kept);
}

void select_fields(Json& rows, const Arguments& arguments) {
  for (const std::string& key : arguments.words) require_key(rows, key);
  for (Json& row : rows) {
    Json kept = Json::object();
    for (const std::string& key : arguments.words) {
      kept[key] = row.contains(key) ? row[key] : Json(nullptr);
    }
    row = std::move(kept);
  }
}

void count_rows(Json& rows, const Arguments&) { rows = Json::array({{{"count", rows.size()}}}); }

}  // namespace am::inspect
