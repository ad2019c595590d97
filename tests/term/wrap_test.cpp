#include "am/term/wrap.h"

#include <catch2/catch.hpp>

using namespace am::term;

TEST_CASE("lines are broken between words, and only those that are too wide") {
  Style narrow;
  narrow.width = 20;
  CHECK(fold("short\n  one two three four five\n\n", narrow) ==
        "short\n  one two three\n    four five\n\n");
  CHECK(fold("a_word_that_is_longer_than_the_line", narrow) ==
        "a_word_that_is_longer_than_the_line");
  CHECK(fold("\x1b[1mone two\x1b[0m three", narrow) == "\x1b[1mone two\x1b[0m three");
}

TEST_CASE("a text beside another has a column of its own") {
  Style narrow;
  narrow.width = 30;
  CHECK(beside("bytes  12", "what it is and why it is there", narrow) ==
        "bytes  12  what it is and why\n           it is there");
  CHECK(beside("bytes", "why", narrow) == "bytes  why");
}
