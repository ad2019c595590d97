#include "am/base/text.h"

#include <algorithm>
#include <catch2/catch.hpp>

using namespace am;
using Names = std::vector<std::string>;

TEST_CASE("join and split are inverse, empty parts included") {
  CHECK(split("a,,b,", ',') == Names{"a", "", "b", ""});
  CHECK(split("", ',') == Names{""});
  CHECK(join(split("a,,b,", ','), ",") == "a,,b,");
  const std::vector<int64_t> sizes = {2, 4, 8};
  CHECK(join(sizes, ", ", " or ") == "2, 4 or 8");
  CHECK(join(std::vector<int64_t>{7}, ", ", " or ") == "7");
  CHECK(shape_text(std::vector<int64_t>{4096, 1024}) == "[4096, 1024]");
  CHECK(shape_text(std::vector<int64_t>{}) == "[]");
}

TEST_CASE("trim takes blanks of all kinds from both ends") {
  CHECK(trim(" \t a b\r\n") == "a b");
  CHECK(trim(" \n ").empty());
}

TEST_CASE("starts_with and ends_with accept texts shorter than the affix") {
  CHECK(starts_with("model.layers", "model."));
  CHECK_FALSE(starts_with("mo", "model"));
  CHECK(ends_with("a.toml", ".toml"));
  CHECK_FALSE(ends_with("ml", ".toml"));
}

TEST_CASE("edit distance counts a swap of neighbours as one") {
  CHECK(edit_distance("", "abc") == 3);
  CHECK(edit_distance("tp_size", "tp_size") == 0);
  CHECK(edit_distance("tp_szie", "tp_size") == 1);
  CHECK(edit_distance("kitten", "sitting") == 3);
}

TEST_CASE("nearest finds slips of the finger and nothing else") {
  const Names keys = {"dp_replicate_size", "dp_size", "tp_size", "world_size"};
  CHECK(nearest("tp_szie", keys) == "tp_size");
  CHECK(nearest("TP-Size", keys) == "tp_size");
  CHECK(nearest("word_size", keys) == "world_size");
  CHECK(nearest("dp", keys) == "dp_size");
  CHECK_FALSE(nearest("learning_rate", keys));
  CHECK_FALSE(nearest("x", keys));
  CHECK_FALSE(nearest("tp_size", Names{}));
}

TEST_CASE("natural order compares digits as numbers and is a strict weak order") {
  CHECK(natural_less("layers.2.w", "layers.10.w"));
  CHECK_FALSE(natural_less("layers.10.w", "layers.2.w"));
  CHECK(natural_less("layers", "layers.0"));
  CHECK(natural_less("a01", "a1") != natural_less("a1", "a01"));
  CHECK(natural_less("a2", "a10b"));
  CHECK(natural_less("18446744073709551616", "18446744073709551617"));
  CHECK_FALSE(natural_less("a", "a"));
  Names names = {"l.10", "l.9", "l.1", "l.09", "l.1.b", "m", "l.1.a", "l.x"};
  std::sort(names.begin(), names.end(), natural_less);
  CHECK(names == Names{"l.1", "l.1.a", "l.1.b", "l.09", "l.9", "l.10", "l.x", "m"});
}

TEST_CASE("display width counts columns, as wide characters need two and combining ones none") {
  CHECK(display_width("") == 0);
  CHECK(display_width("größe") == 5);
  CHECK(display_width("┌─┐") == 3);
  CHECK(display_width("中文 a") == 6);
  CHECK(display_width("e\u0301") == 1);
  CHECK(display_width("\U0001F600") == 2);
}

TEST_CASE("character count counts code points") {
  CHECK(character_count("") == 0);
  CHECK(character_count("größe") == 5);
  CHECK(character_count("中文 a") == 4);
  CHECK(character_count("e\u0301") == 2);
}
