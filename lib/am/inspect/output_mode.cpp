// Formats answers as JSON lines, CSV and Markdown.
#include <algorithm>

#include "am/base/text.h"
#include "am/inspect/console.h"
#include "am/inspect/rows.h"

namespace am::inspect {
namespace {

// Number of significant digits that represent every double exactly, because programs read the text.
constexpr int kAllDigits = 17;

std::string exact_text(const Json& value) {
  if (value.is_null()) return {};
  if (value.is_string()) return value.get<std::string>();
  const bool flat =
      value.is_array() && std::none_of(value.begin(), value.end(),
                                       [](const Json& each) { return each.is_structured(); });
  if (flat) return cell_text(value, RowKind::kText, kAllDigits);
  return dump_json(value, -1);  // prints the shortest digits that identify a number
}

// Returns one row {"key", "value"} for each field of an answer that has no list of rows.
Json facts_as_rows(const Json& answer) {
  Json rows = Json::array();
  for (const auto& [key, value] : answer.items()) rows.push_back({{"key", key}, {"value", value}});
  return rows;
}

std::string csv_of(const Json& rows) {
  const std::vector<RowColumn> columns = columns_of(rows);
  std::vector<std::string> fields;
  for (const RowColumn& column : columns) fields.push_back(csv_field(column.key));
  std::string out = join(fields, ",") + "\n";
  for (const Json& row : rows) {
    fields.clear();
    for (const RowColumn& column : columns) {
      fields.push_back(row.contains(column.key) ? csv_field(exact_text(row[column.key])) : "");
    }
    out += join(fields, ",") + "\n";
  }
  return out;
}

std::string markdown_field(const std::string& text) {
  std::string out;
  for (const char c : text) out += c == '|' ? "\\|" : c == '\n' ? " " : std::string(1, c);
  return out;
}

std::string markdown_of(const Json& rows) {
  const std::vector<RowColumn> columns = columns_of(rows);
  std::string head = "|";
  std::string rule = "|";
  for (const RowColumn& column : columns) {
    head += cat(" ", markdown_field(column.key), " |");
    rule += column.kind == RowKind::kText ? "---|" : "---:|";
  }
  std::string out = cat(head, "\n", rule, "\n");
  for (const Json& row : rows) {
    out += "|";
    for (const RowColumn& column : columns) {
      const std::string text =
          row.contains(column.key) ? cell_text(row[column.key], column.kind, 6) : "";
      out += cat(" ", markdown_field(text), " |");
    }
    out += "\n";
  }
  return out;
}

}  // namespace

std::optional<OutputMode> parse_output_mode(std::string_view name) {
  if (name == "table") return OutputMode::kTable;
  if (name == "json") return OutputMode::kJson;
  if (name == "csv") return OutputMode::kCsv;
  if (name == "md") return OutputMode::kMarkdown;
  return std::nullopt;
}

Json* rows_in(Json& answer, std::string* key) {
  for (auto& [name, value] : answer.items()) {
    const bool of_objects =
        value.is_array() &&
        std::all_of(value.begin(), value.end(), [](const Json& each) { return each.is_object(); });
    if (!of_objects) continue;
    if (key != nullptr) *key = name;
    return &value;
  }
  return nullptr;
}

std::string csv_field(std::string_view text) {
  if (text.find_first_of(",\"\r\n") == std::string_view::npos) return std::string(text);
  std::string out = "\"";
  for (const char c : text) out += c == '"' ? "\"\"" : std::string(1, c);
  return out + "\"";
}

std::string in_mode(const Json& answer, OutputMode mode) {
  if (mode == OutputMode::kJson) return dump_json(answer, -1) + "\n";
  Json copy = answer;
  const Json* rows = rows_in(copy);
  const Json table = rows != nullptr ? *rows : facts_as_rows(answer);
  return mode == OutputMode::kCsv ? csv_of(table) : markdown_of(table);
}

}  // namespace am::inspect
