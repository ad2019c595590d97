#include "am/term/caret.h"

#include <catch2/catch.hpp>

using namespace am;
using namespace am::term;

namespace {

Diagnostic error_at(Span span) {
  return {"tp.heads", Severity::kError, std::move(span), "3 does not divide 8", "legal: 1, 2 or 4"};
}

}  // namespace

TEST_CASE("a diagnostic reads as a compiler's") {
  CHECK(render(error_at({"llama.toml", 7, 11, 1, "tp_size = 3"}), Style::plain()) ==
        "llama.toml:7:11: error[tp.heads]: 3 does not divide 8\n"
        "    7 | tp_size = 3\n"
        "      |           ^\n"
        "help: legal: 1, 2 or 4\n");
}

TEST_CASE("the underline is as long as what is wrong, and counts characters") {
  CHECK(render({"r", Severity::kWarning, {"p", 123456, 4, 5, "ä\t= größe"}, "m", ""},
               Style::plain()) ==
        "p:123456:4: warning[r]: m\n"
        "123456 | ä = größe\n"
        "       |    ^^^^^\n");
}

TEST_CASE("the underline stands below characters of two columns") {
  CHECK(render({"r", Severity::kWarning, {"p", 1, 4, 2, "中= 文字x"}, "m", ""}, Style::plain()) ==
        "p:1:4: warning[r]: m\n"
        "    1 | 中= 文字x\n"
        "      |     ^^^^\n");
}

TEST_CASE("spans without a line or a file have no picture") {
  CHECK(render(error_at({"p.toml", 0, 0, 1, ""}), Style::plain()) ==
        "p.toml: error[tp.heads]: 3 does not divide 8\nhelp: legal: 1, 2 or 4\n");
  CHECK(render(error_at({}), Style::plain()) ==
        "error[tp.heads]: 3 does not divide 8\nhelp: legal: 1, 2 or 4\n");
  CHECK(render(error_at({"c.json", 3, 5, 1, ""}), Style::plain()).find("c.json:3:5: error") == 0);
  CHECK(render({"", Severity::kNote, {}, "m", ""}, Style::plain()) == "note: m\n");
}

TEST_CASE("columns and lengths beyond the line stay inside the picture") {
  CHECK(render({"r", Severity::kError, {"p", 1, 99, 99, "abc"}, "m", ""}, Style::plain()) ==
        "p:1:99: error[r]: m\n    1 | abc\n      |    ^\n");
  CHECK(render({"r", Severity::kError, {"p", 1, -5, 0, "abc"}, "m", ""}, Style::plain()) ==
        "p:1:1: error[r]: m\n    1 | abc\n      | ^\n");
}

TEST_CASE("a long line is cut to the part around the caret") {
  Style style;
  style.width = 48;
  const std::string line = std::string(100, 'a') + "HERE" + std::string(100, 'b');
  const std::string out = render({"r", Severity::kError, {"p", 1, 101, 4, line}, "m", ""}, style);
  CHECK(out ==
        "p:1:101: error[r]: m\n"
        "    1 | ...aaaaaaaaaaaaaHEREbbbbbbbbbbbbbbbbb...\n"
        "      |                 ^^^^\n");
}

TEST_CASE("lines of a message are indented, control characters of the file are not passed on") {
  const std::string out = render(
      {"r", Severity::kError, {"p\x1b", 1, 1, 1, "a\x1b[2Jb"}, "one\ntwo", "a\nb"}, Style::plain());
  CHECK(out == "p?:1:1: error[r]: one\n      two\n    1 | a?[2Jb\n      | ^\nhelp: a\n      b\n");
}

TEST_CASE("colour changes nothing but escapes") {
  Style color;
  color.color = true;
  const Diagnostic diagnostic = error_at({"llama.toml", 7, 11, 1, "tp_size = 3"});
  std::string out = render(diagnostic, color);
  CHECK(out.find('\x1b') != std::string::npos);
  for (size_t at; (at = out.find('\x1b')) != std::string::npos;) {
    out.erase(at, out.find('m', at) + 1 - at);
  }
  CHECK(out == render(diagnostic, Style::plain()));
}

TEST_CASE("the summary counts errors and warnings") {
  Diagnostics found;
  CHECK(summary(found) == "no errors");
  found.error("a", {}, "x");
  CHECK(summary(found) == "1 error");
  found.error("a", {}, "x");
  found.warning("b", {}, "y");
  CHECK(summary(found) == "2 errors, 1 warning");
  found.add({"n", Severity::kNote, {}, "z", ""});
  CHECK(summary(found) == "2 errors, 1 warning");
  Diagnostics warnings;
  warnings.warning("b", {}, "y");
  warnings.warning("b", {}, "y");
  CHECK(summary(warnings) == "2 warnings");
  CHECK(render(found, Style::plain()) == "error[a]: x\nerror[a]: x\nwarning[b]: y\nnote[n]: z\n");
}
