#include "am/cluster/csv.h"

#include <utility>

#include "am/base/text.h"

namespace am::cluster {
namespace {

class CsvReader {
 public:
  CsvReader(std::string_view text, const std::string& file, Diagnostics& found)
      : text_(text), file_(file), found_(found) {}

  bool at_end() const { return at_ >= text_.size(); }
  int line() const { return line_; }

  // Returns the cells of the next row; an empty line has no cells. A row spans several lines if a
  // quoted cell contains line ends.
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
                 "a quote is opened and never closed",
                 "close the quote; write a quote inside a cell twice");
  }

  std::string_view text_;
  const std::string& file_;
  Diagnostics& found_;
  size_t at_ = 0;
  int line_ = 1;
};

}  // namespace

CsvTable parse_csv(std::string_view text, const std::string& file, Diagnostics& found) {
  CsvTable table;
  CsvReader reader(text, file, found);
  while (!reader.at_end()) {
    CsvRow row{.line = reader.line()};
    const std::vector<std::string> cells = reader.next();
    if (cells.empty()) continue;
    if (table.columns.empty()) {
      for (const std::string& cell : cells) table.columns.emplace_back(trim(cell));
      continue;
    }
    if (cells.size() > table.columns.size()) {
      found.error(
          "csv.syntax", Span{.file = file, .line = row.line},
          cat("the row has ", cells.size(), " cells, but the header has ", table.columns.size()),
          "quote cells that have commas in them");
      continue;
    }
    for (size_t i = 0; i < cells.size(); ++i) {
      const std::string cell(trim(cells[i]));
      if (!cell.empty()) row.cells.emplace(table.columns[i], cell);
    }
    table.rows.push_back(std::move(row));
  }
  return table;
}

}  // namespace am::cluster
