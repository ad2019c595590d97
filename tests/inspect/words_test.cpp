#include "am/inspect/words.h"

#include <catch2/catch.hpp>

#include "am/base/error.h"

using namespace am::inspect;
using Strings = std::vector<std::string>;

TEST_CASE("commands end at newlines and semicolons", "[inspect]") {
  const auto split = split_commands("ls ; show a\n\n;;  help\nqu", false);
  CHECK(split.commands == Strings{"ls", "show a", "help"});
  CHECK(split.rest == "qu");
  CHECK(split_commands(split.rest, true).commands == Strings{"qu"});
}

TEST_CASE("quotes keep separators, comments are dropped", "[inspect]") {
  const auto split = split_commands("loss 'a; b\nc' # note; ls\nls a#b # x", true);
  CHECK(split.commands == Strings{"loss 'a; b\nc'", "ls a#b"});
  CHECK_FALSE(split.open_quote);
  CHECK(split_commands(R"(loss "a\";b"; ls)", true).commands == Strings{R"(loss "a\";b")", "ls"});
}

TEST_CASE("an open quote waits for more", "[inspect]") {
  const auto split = split_commands("ls; loss 'a; b\n", true);
  CHECK(split.commands == Strings{"ls"});
  CHECK(split.open_quote);
  CHECK(split_commands(split.rest + "c'\n", true).commands == Strings{"loss 'a; b\nc'"});
}

TEST_CASE("a command may come in any pieces", "[inspect]") {
  const std::string text = "ls 'a; b\n' ; show x # no; t\n loss \"q\\\"\" \n\nlast 'w'";
  const Strings whole = split_commands(text, true).commands;
  REQUIRE(whole.size() == 4);
  for (size_t size = 1; size < text.size(); ++size) {
    CommandReader reader;
    Strings commands;
    for (size_t at = 0; at < text.size(); at += size) {
      for (const std::string& command : reader.add(text.substr(at, size))) {
        commands.push_back(command);
      }
    }
    for (const std::string& command : reader.finish()) commands.push_back(command);
    CHECK(commands == whole);
  }
}

TEST_CASE("a command without an end is refused before it fills the memory", "[inspect]") {
  CommandReader reader;
  const std::string piece(CommandReader::kLongest / 4 + 1, 'x');
  for (int i = 0; i < 3; ++i) CHECK(reader.add(piece).empty());
  CHECK_THROWS_AS(reader.add(piece), am::Error);
}

TEST_CASE("words know whether they stood in quotes", "[inspect]") {
  std::vector<bool> quoted;
  CHECK(split_words(R"(loss 'a  b' c"d" '' e\ f)", &quoted) ==
        Strings{"loss", "a  b", "cd", "", "e f"});
  CHECK(quoted == std::vector<bool>{false, true, true, true, false});
}

TEST_CASE("words lose their quotes", "[inspect]") {
  CHECK(split_words(R"(loss 'a  b' "c\n\"d\"" '' e\ f)") ==
        Strings{"loss", "a  b", "c\n\"d\"", "", "e f"});
  CHECK(split_words("  a'b'\"c\"  ") == Strings{"abc"});
  CHECK(split_words("").empty());
  CHECK(split_words(R"('a\n')") == Strings{R"(a\n)"});
}

TEST_CASE("an apostrophe that opens a quote is explained", "[inspect]") {
  try {
    split_words("loss don't");
    FAIL("expected an error");
  } catch (const am::Error& error) {
    CHECK(error.kind() == am::ErrorKind::kUsage);
    CHECK(error.hint().find("double quotes") != std::string::npos);
  }
}

TEST_CASE("a backslash joins lines outside of quotes", "[inspect]") {
  const auto split = split_commands("show \\\n  a\nls", true);
  REQUIRE(split.commands.size() == 2);
  CHECK(split_words(split.commands[0]) == Strings{"show", "a"});
  CHECK(split_words("a\\\nb") == Strings{"ab"});
}

TEST_CASE("pipes stand alone and outside of quotes", "[inspect]") {
  CHECK(split_pipes("ls | sort bytes |  head").size() == 3);
  CHECK(split_pipes("ls|sort").size() == 1);
  CHECK(split_pipes("loss 'a | b' \\| \"c | d\"").size() == 1);
  CHECK(split_pipes("ls |") == Strings{"ls ", ""});
}
