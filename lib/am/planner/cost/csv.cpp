#include "am/planner/cost/csv.h"

#include <charconv>
#include <cmath>
#include <utility>

#include "am/base/text.h"

namespace am::planner {
namespace {

class Reader {
 public:
  Reader(std::string_view text, const std::string& file, Diagnostics& found)
      : text_(text), file_(file), found_(found) {}

  bool at_end() const { return at_ >= text_.size(); }
  int line() const { return line_; }

  // The cells of the next line; empty for an empty line.
  std::vector<std::string> next() {
    std::vector<std::string> cells;
    std::string cell;
    bool any = false;
    while (!at_end()) {
      const char c = text_[at_++];
      if (c == '\n') break;
      if (c == '\r') continue;
      any = true;
      if (c == ',') {
        cells.push_back(std::exchange(cell, {}));
      } else if (c == '"' && cell.empty()) {
        quoted(cell);
      } else {
        cell += c;
      }
    }
    ++line_;
    if (any) cells.push_back(std::move(cell));
    return cells;
  }

 private:
  void quoted(std::string& cell) {
    const int opened = line_;
    while (!at_end()) {
      const char c = text_[at_++];
      if (c == '\n') ++line_;
      if (c != '"') {
        cell += c;
      } else if (!at_end() && text_[at_] == '"') {
        cell += text_[at_++];
      } else {
        return;
      }
    }
    found_.error("csv.syntax", Span{.file = file_, .line = opened},
                 "a quote is opened and never closed", "close it, or double quotes inside a cell");
  }

  std::string_view text_;
  const std::string& file_;
  Diagnostics& found_;
  size_t at_ = 0;
  int line_ = 1;
};

}  // namespace

const std::string& CsvRow::text(std::string_view column) const {
  static const std::string kNothing;
  const auto found = columns_->find(column);
  return found == columns_->end() || found->second >= cells_.size() ? kNothing
                                                                    : cells_[found->second];
}

std::optional<double> CsvRow::number(std::string_view column) const {
  const std::string_view cell = trim(text(column));
  double value = 0.0;
  const auto [end, error] = std::from_chars(cell.data(), cell.data() + cell.size(), value);
  if (cell.empty() || error != std::errc() || end != cell.data() + cell.size() ||
      !std::isfinite(value)) {
    return std::nullopt;
  }
  return value;
}

CsvTable parse_csv(std::string_view text, const std::string& file, Diagnostics& found) {
  CsvTable table;
  Reader reader(text, file, found);
  auto columns = std::make_shared<std::map<std::string, size_t, std::less<>>>();
  while (!reader.at_end()) {
    const int line = reader.line();
    std::vector<std::string> cells = reader.next();
    if (cells.empty()) continue;
    if (table.columns.empty()) {
      table.columns = std::move(cells);
      for (size_t i = 0; i < table.columns.size(); ++i) {
        columns->emplace(std::string(trim(table.columns[i])), i);
      }
      continue;
    }
    if (cells.size() > table.columns.size()) {
      found.error("csv.syntax", Span{.file = file, .line = line},
                  cat("the row has ", cells.size(), " cells, the header ", table.columns.size()),
                  "quote cells that have commas in them");
      continue;
    }
    table.rows.emplace_back(columns, std::move(cells), line);
  }
  return table;
}

}  // namespace am::planner
