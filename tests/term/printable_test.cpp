#include "am/term/printable.h"

#include <algorithm>
#include <catch2/catch.hpp>

#include "am/base/json.h"
#include "am/base/text.h"
#include "am/term/caret.h"

using namespace am::term;

TEST_CASE("control characters of a user's text do not reach the terminal") {
  CHECK(printable("a\tb\x1b[31m\r\n\x7f") == "a b?[31m???");
  CHECK(printable("\xC2\x9B"
                  "31mé") == "?31mé");  // the one-character form of ESC [
  CHECK(printable("größe ┌ 漢字 😀") == "größe ┌ 漢字 😀");
  CHECK(printable("a\u200Db\u2029c") == "a\u200Db\u2029c");  // joiners and separators are kept
}

TEST_CASE("characters that reorder a line do not reach the terminal") {
  for (const char* sequence : {"\u061C", "\u200E", "\u200F", "\u202A", "\u202B", "\u202C", "\u202D",
                               "\u202E", "\u2066", "\u2067", "\u2068", "\u2069"}) {
    INFO(am::dump_json(am::Json(sequence)));
    CHECK(is_control(sequence));
    CHECK(printable(std::string("a") + sequence + "b") == "a?b");
    CHECK(printable_lines(std::string("a") + sequence + "b\n") == "a?b\n");
  }
  CHECK(printable("\u2065\u206A\u200D") == "\u2065\u206A\u200D");
}

TEST_CASE("bytes that are no UTF-8 do not reach the terminal") {
  CHECK(printable("\xC2") == "?");
  CHECK(printable("a\x9Bz") == "a?z");   // CSI on an eight-bit terminal
  CHECK(printable("\xC0\x9B") == "??");  // an overlong encoding of ESC
}

TEST_CASE("in a result our own colours stay and no other sequence does") {
  CHECK(printable_lines("\x1b[1;31mred\x1b[0m\n\tx") == "\x1b[1;31mred\x1b[0m\n\tx");
  CHECK(printable_lines("\x1b[2Jx\x1b]0;title\x07\r") == "?[2Jx?]0;title??");
  CHECK(printable_lines("\x1b[") == "?[");
  // Sequences that paint() never writes are replaced, for example hidden text and backgrounds.
  CHECK(printable_lines("\x1b[8mx\x1b[31my\x1b[1;41m") == "?[8mx?[31my?[1;41m");
  CHECK(printable_lines("\x1b[1;31mred\x1b[0m", /*paint=*/false) == "?[1;31mred?[0m");
  Style style;
  style.color = true;
  for (const Role role : {Role::kError, Role::kWarning, Role::kNote, Role::kHelp, Role::kDim,
                          Role::kBold, Role::kAccent}) {
    const std::string painted = style.paint(role, "a");
    CHECK(printable_lines(painted) == painted);
  }
}

TEST_CASE("each line of a message is shortened and cleaned") {
  CHECK(echo_lines("a\x1b\nb\n\n") == "a?\n  b");
  CHECK(echo_lines("a\nb", 0) == "a\nb");
  CHECK(echo_lines("") == "");
  CHECK(echo_lines(std::string(1 << 20, 'x') + "\nb").size() < 2 * kLongestEcho);
}

TEST_CASE("JSON for a terminal is the same JSON") {
  const am::Json json = {{"a\u202E", "\x1b[31m\x7f\u009B é"}, {"list", {1, 2}}};
  const std::string text = printable_json(am::dump_json(json));
  CHECK(text.find("\\u202e") != std::string::npos);
  CHECK(text.find("\\u007f\\u009b é") != std::string::npos);
  CHECK(printable_lines(text) == text);
  CHECK(am::Json::parse(text) == json);
}

TEST_CASE("of a long word both ends are shown") {
  CHECK(shortened("abcdefgh", 8) == "abcdefgh");
  CHECK(shortened("abcdefghi", 8) == "abcdef...[1 bytes]...hi");
  CHECK(shortened("ééééé", 4) == "é...[8 bytes]...");  // characters are not split
  const std::string message = std::string(5 << 20, 'x') + ": cannot read";
  const std::string out = echo(message);
  CHECK(out.size() < 2 * kLongestEcho);
  CHECK(am::ends_with(out, ": cannot read"));
}

TEST_CASE("of thousands of diagnostics the first are shown, the others counted") {
  am::Diagnostics found;
  for (int i = 0; i < 300; ++i) found.error("r", {std::string(100000, 'f'), 1}, "m");
  found.warning("w", {}, "m");
  const std::string out = render(found, Style::plain());
  CHECK(std::count(out.begin(), out.end(), '\n') == static_cast<int>(kMostShown) + 1);
  CHECK(am::ends_with(out, "\nand 201 more, among them 200 errors, 1 warning\n"));
  CHECK(out.size() < 3 * kMostShown * kLongestEcho);
}
