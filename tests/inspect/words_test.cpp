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
