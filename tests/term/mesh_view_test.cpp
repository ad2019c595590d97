#include "am/term/mesh_view.h"

#include <catch2/catch.hpp>

#include "am/base/text.h"

using namespace am;
using namespace am::term;

namespace {

GridBox node(int number, int first) {
  GridBox box;
  box.title = cat("node ", number);
  box.columns = {"tp0", "tp1"};
  box.rows = {"dp 0", "dp 1"};
  box.cells = {{cat(first), cat(first + 1)}, {cat(first + 2), cat(first + 3)}};
  return box;
}

}  // namespace

TEST_CASE("stages stand side by side, nodes are boxes") {
  const std::vector<GridStack> stacks = {{"pp 0", {node(0, 0)}}, {"pp 1", {node(1, 8)}}};
  Style style;
  style.unicode = true;
  CHECK(draw_grid(stacks, style) ==
        "pp 0                pp 1\n"
        "┌ node 0 ────────┐  ┌ node 1 ────────┐\n"
        "│       tp0  tp1 │  │       tp0  tp1 │\n"
        "│ dp 0    0    1 │  │ dp 0    8    9 │\n"
        "│ dp 1    2    3 │  │ dp 1   10   11 │\n"
        "└────────────────┘  └────────────────┘\n");
}

TEST_CASE("stacks that do not fit go below, and stacks may differ in height") {
  const std::vector<GridStack> stacks = {
      {"pp 0", {node(0, 0), node(1, 4)}}, {"pp 1", {node(2, 8)}}, {"pp 2", {node(3, 12)}}};
  Style style;
  style.width = 40;
  const std::string out = draw_grid(stacks, style);
  CHECK(out ==
        "pp 0                pp 1\n"
        "+ node 0 --------+  + node 2 --------+\n"
        "|       tp0  tp1 |  |       tp0  tp1 |\n"
        "| dp 0    0    1 |  | dp 0    8    9 |\n"
        "| dp 1    2    3 |  | dp 1   10   11 |\n"
        "+----------------+  +----------------+\n"
        "+ node 1 --------+\n"
        "|       tp0  tp1 |\n"
        "| dp 0    4    5 |\n"
        "| dp 1    6    7 |\n"
        "+----------------+\n"
        "\n"
        "pp 2\n"
        "+ node 3 --------+\n"
        "|       tp0  tp1 |\n"
        "| dp 0   12   13 |\n"
        "| dp 1   14   15 |\n"
        "+----------------+\n");
}

TEST_CASE("what does not fit is counted") {
  GridBox tall;
  for (int i = 0; i < 1000; ++i) tall.cells.push_back({cat(i)});
  const std::vector<GridStack> stacks(20, GridStack{"", std::vector<GridBox>(12, tall)});
  const std::string out = draw_grid(stacks, Style::plain(), {5, 2, 3});
  CHECK(out.find("... 996 more rows") != std::string::npos);
  CHECK(out.find("999") != std::string::npos);  // the last row is kept
  CHECK(out.find("... 10 more boxes") != std::string::npos);
  CHECK(out.find("\n... 17 more\n") != std::string::npos);
  CHECK(split(out, '\n').size() < 25);
}

TEST_CASE("boxes without titles, and no boxes at all") {
  const std::vector<GridStack> stacks = {{"", {{"", {}, {}, {{"0", "1"}}}}}};
  CHECK(draw_grid(stacks, Style::plain()) == "+------+\n| 0  1 |\n+------+\n");
  CHECK(draw_grid({}, Style::plain()).empty());
}

TEST_CASE("colour does not change the picture") {
  const std::vector<GridStack> stacks = {{"pp 0", {node(0, 0)}}, {"pp 1", {node(1, 8)}}};
  Style color;
  color.color = true;
  std::string out = draw_grid(stacks, color);
  for (size_t at; (at = out.find('\x1b')) != std::string::npos;) {
    out.erase(at, out.find('m', at) + 1 - at);
  }
  CHECK(out == draw_grid(stacks, Style::plain()));
}

TEST_CASE("a box that is too wide says the columns' common word once, then leaves columns out") {
  GridBox box;
  box.title = "nodes 0-1";
  box.rows = {"node 0: replica 0", "node 1: replica 1"};
  for (int i = 0; i < 6; ++i) box.columns.push_back(cat("shard ", i));
  for (int first : {0, 6}) {
    auto& cells = box.cells.emplace_back();
    for (int i = 0; i < 6; ++i) cells.push_back(cat(first + i));
  }
  Style style;
  style.width = 50;
  CHECK(draw_grid(std::vector<GridStack>{{"", {box}}}, style) ==
        "+ nodes 0-1 --------------------------------+\n"
        "| shard               0   1   2   3   4   5 |\n"
        "| node 0: replica 0   0   1   2   3   4   5 |\n"
        "| node 1: replica 1   6   7   8   9  10  11 |\n"
        "+-------------------------------------------+\n");
  style.width = 40;
  CHECK(draw_grid(std::vector<GridStack>{{"", {box}}}, style) ==
        "+ nodes 0-1 ------------------------+\n"
        "| shard               0   1  ..   5 |\n"
        "| node 0: replica 0   0   1  ..   5 |\n"
        "| node 1: replica 1   6   7  ..  11 |\n"
        "+-----------------------------------+\n");
}
