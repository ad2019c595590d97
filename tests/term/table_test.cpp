#include "am/term/table.h"

#include <catch2/catch.hpp>
#include <set>

#include "am/base/error.h"
#include "am/base/text.h"

using namespace am;
using namespace am::term;

TEST_CASE("columns are aligned by what is seen, and lines have no blanks at their end") {
  Table table({{"parameter"}, {"bytes", Align::kRight}, {"note"}});
  table.add({"größe", "1 KiB", "first"});
  table.add({"b"});
  table.add_rule();
  table.add({"total", "122 KiB"});
  CHECK(table.text(Style::plain(), 2) ==
        "  parameter    bytes  note\n"
        "  -------------------------\n"
        "  größe        1 KiB  first\n"
        "  b\n"
        "  -------------------------\n"
        "  total      122 KiB\n");
  Style unicode;
  unicode.unicode = true;
  CHECK(table.text(unicode).find("─────") != std::string::npos);
}

TEST_CASE("a table without titles is its rows alone") {
  Table table({{}, {"", Align::kRight}});
  CHECK(table.empty());
  CHECK(table.text(Style::plain()).empty());
  table.add({"a", "1"});
  table.add({"bb", "22"});
  CHECK(table.text(Style::plain()) == "a    1\nbb  22\n");
}

TEST_CASE("roles colour cells without moving columns, and cells cannot carry escapes") {
  Style color;
  color.color = true;
  Table table({{}, {}});
  table.add({Cell("a\x1b[2J", Role::kError), "x"});
  table.add({"bbbbbb", "y"});
  CHECK(table.text(color) == "\x1b[1;31ma?[2J\x1b[0m   x\nbbbbbb  y\n");
}

TEST_CASE("a row with too many cells is a bug that is caught") {
  Table table({{"a"}});
  CHECK_THROWS_AS(table.add({"1", "2"}), Error);
}
TEST_CASE("names that are shortened stay different, and columns are left out instead") {
  Table table({{"name"}, {"numel", Align::kRight}, {"norm", Align::kRight}});
  for (const char* matrix : {"q_proj", "k_proj", "v_proj"}) {
    table.add({cat("model.layers.10.self_attn.", matrix, ".weight"), "1024", "1.2345678"});
  }
  Style style;
  style.window = true;
  for (style.width = 20; style.width < 60; ++style.width) {
    INFO(style.width);
    std::set<std::string> names;
    for (const std::string& line : split(table.text(style), '\n')) {
      if (line.find("proj") != std::string::npos) names.insert(line.substr(0, line.find(' ')));
    }
    CHECK(names.size() == 3);
  }
}

TEST_CASE("columns that wrap are broken between words where the table is too wide") {
  Table table({{"name", Align::kWrap}, {"bytes", Align::kRight}, {"why", Align::kWrap}});
  table.add({"short", "1 KiB", "one two three four five"});
  table.add({"a_name_without_blanks", "12 KiB", "six"});
  Style narrow;
  narrow.width = 42;
  CHECK(table.text(narrow) ==
        "name                    bytes  why\n"
        "------------------------------------------\n"
        "short                   1 KiB  one two\n"
        "                               three four\n"
        "                               five\n"
        "a_name_without_blanks  12 KiB  six\n");
  narrow.width = 30;  // so narrow that words also break after marks such as "_"
  CHECK(table.text(narrow).find("a_name_") != std::string::npos);
  CHECK(table.text(narrow).find("a_name_without_blanks") == std::string::npos);
}
