// Defines the filters that may follow a pipe, for example `stats | sort norm | head 3`. A filter
// changes the rows of an answer, which are a list of JSON objects.
#include <algorithm>
#include <numeric>
#include <string_view>
#include <utility>
#include <vector>

#include "am/base/number.h"
#include "am/base/text.h"
#include "am/inspect/commands/table.h"
#include "am/inspect/rows.h"

namespace am::inspect {
namespace {

// Returns the key of the field that `word` names, by its key or by the title of its column. If
// there are no rows, returns `word` itself. Throws Error(kUsage) if neither the JSON rows nor the
// table have the field.
std::string key_of(const Json& rows, const RowTable& table, const std::string& word) {
  std::vector<std::string> keys;
  for (const RowColumn& column : columns_of(rows)) keys.push_back(column.key);
  if (rows.empty() || std::find(keys.begin(), keys.end(), word) != keys.end()) return word;
  for (const RowColumn& column : table.columns) {
    if (column.title == word || column.key == word) return column.key;
  }
  const auto near = nearest(word, keys);
  throw Error(
      ErrorKind::kUsage, cat("the rows have no field `", word, "`"),
      near ? cat("did you mean `", *near, "`?") : cat("their fields are ", join(keys, ", ")));
}

// Returns the field `key` of the row `index`: from the JSON rows if they contain the field,
// otherwise from the table. Returns null if the table does not contain the field either.
Json field(const Json& rows, const RowTable& table, size_t index, const std::string& key) {
  if (rows[index].contains(key)) return rows[index][key];
  const bool in_table = !table.shown.is_null() && table.shown[index].contains(key);
  return in_table ? table.shown[index][key] : Json(nullptr);
}

// Keeps the rows with these indices, in this order.
void choose(Json& rows, RowTable& table, const std::vector<size_t>& indices) {
  const auto chosen = [&](Json& all) {
    Json kept = Json::array();
    for (const size_t index : indices) kept.push_back(std::move(all[index]));
    all = std::move(kept);
  };
  chosen(rows);
  if (!table.shown.is_null()) chosen(table.shown);
}

// Keeps the rows for whose index `holds` returns true.
template <typename Condition>
void keep_if(Json& rows, RowTable& table, const Condition& holds) {
  std::vector<size_t> kept;
  for (size_t i = 0; i < rows.size(); ++i) {
    if (holds(i)) kept.push_back(i);
  }
  choose(rows, table, kept);
}

int64_t row_count(const Arguments& arguments) {
  if (arguments.words.empty()) return 10;
  const auto count = parse_integer(arguments.words.front());
  if (!count || *count < 0) {
    throw Error(ErrorKind::kUsage, cat("`", arguments.words.front(), "` is not a number of rows"));
  }
  return *count;
}

// Returns whether value `a` is sorted before `b`. Numbers are in descending order, strings in
// natural order, and false comes before true. Null, lists and objects come last.
bool sorts_before(const Json& a, const Json& b) {
  // Values of different types are ordered by type only: numbers, strings, booleans, all others.
  const auto kind = [](const Json& value) {
    return value.is_number() ? 0 : value.is_string() ? 1 : value.is_boolean() ? 2 : 3;
  };
  if (kind(a) != kind(b)) return kind(a) < kind(b);
  if (a.is_number() && b.is_number()) return a.get<double>() > b.get<double>();
  if (a.is_string() && b.is_string()) {
    return natural_less(a.get<std::string>(), b.get<std::string>());
  }
  if (a.is_boolean() && b.is_boolean()) return a.get<bool>() < b.get<bool>();
  return false;
}

}  // namespace

void sort_rows(Json& rows, RowTable& table, const Arguments& arguments) {
  const std::string key = key_of(rows, table, arguments.words.front());
  const bool up = arguments.has("--up");
  std::vector<Json> values;
  for (size_t i = 0; i < rows.size(); ++i) values.push_back(field(rows, table, i, key));
  std::vector<size_t> order(rows.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    const bool turned = up && !values[a].is_null() && !values[b].is_null();
    return turned ? sorts_before(values[b], values[a]) : sorts_before(values[a], values[b]);
  });
  choose(rows, table, order);
}

void head_rows(Json& rows, RowTable& table, const Arguments& arguments) {
  const int64_t count = row_count(arguments);
  keep_if(rows, table, [&](size_t index) { return static_cast<int64_t>(index) < count; });
}

void tail_rows(Json& rows, RowTable& table, const Arguments& arguments) {
  const int64_t first = static_cast<int64_t>(rows.size()) - row_count(arguments);
  keep_if(rows, table, [&](size_t index) { return static_cast<int64_t>(index) >= first; });
}

// Keeps the rows in which at least one field contains the text, or matches the text as a glob.
void grep_rows(Json& rows, RowTable& table, const Arguments& arguments) {
  const std::string text = arguments.text();
  const auto matches = [&](const Json& row) {
    return std::any_of(row.begin(), row.end(), [&](const Json& value) {
      const std::string shown = cell_text(value, RowKind::kText, 17);
      return shown.find(text) != std::string::npos || glob_match(text, shown);
    });
  };
  keep_if(rows, table, [&](size_t index) {
    return matches(rows[index]) || (!table.shown.is_null() && matches(table.shown[index]));
  });
}

// Keeps the rows that satisfy a condition, for example `where norm > 3`.
void where_rows(Json& rows, RowTable& table, const Arguments& arguments) {
  const std::string key = key_of(rows, table, arguments.words[0]);
  const std::string relation = arguments.words[1] == "=" ? "==" : arguments.words[1];
  const auto wanted = parse_number(arguments.words[2]);
  const bool known =
      std::find(kComparisons.begin(), kComparisons.end(), relation) != kComparisons.end();
  if (!wanted || !known) {
    throw Error(ErrorKind::kUsage, cat("`", arguments.text(), "` is not a condition"),
                "where KEY <|<=|>|>=|=|!= NUMBER, for example where norm > 3");
  }
  keep_if(rows, table, [&](size_t index) {
    const Json value = field(rows, table, index, key);
    return value.is_number() && compare(value.get<double>(), relation, *wanted);
  });
}

void select_fields(Json& rows, RowTable& table, const Arguments& arguments) {
  const std::vector<RowColumn> all = columns_of(rows);
  std::vector<std::string> keys;
  std::vector<RowColumn> columns;
  for (const std::string& word : arguments.words) {
    keys.push_back(key_of(rows, table, word));
    const auto named = [&](const RowColumn& each) {
      return each.title == word || each.key == keys.back();
    };
    for (const std::vector<RowColumn>* list : {&std::as_const(table.columns), &all}) {
      const auto known = std::find_if(list->begin(), list->end(), named);
      if (known == list->end()) continue;
      columns.push_back(*known);
      break;
    }
  }
  for (size_t i = 0; i < rows.size(); ++i) {
    Json kept = Json::object();
    for (const std::string& key : keys) kept[key] = field(rows, table, i, key);
    if (!table.shown.is_null()) {
      Json shown = Json::object();
      for (const RowColumn& column : columns) {
        const bool in_table = table.shown[i].contains(column.key);
        shown[column.key] =
            in_table ? table.shown[i][column.key] : field(rows, table, i, column.key);
      }
      table.shown[i] = std::move(shown);
    }
    rows[i] = std::move(kept);
  }
  table.columns = std::move(columns);
}

void count_rows(Json& rows, RowTable& table, const Arguments&) {
  rows = Json::array({{{"count", rows.size()}}});
  table = {};
}

}  // namespace am::inspect
