#include <catch2/catch.hpp>

#include "am/base/error.h"
#include "am/base/text.h"

using am::glob_match;
using am::is_glob;

TEST_CASE("a star matches any run, dots too") {
  CHECK(glob_match("*", ""));
  CHECK(glob_match("model.layers.*.q_proj.*", "model.layers.11.q_proj.weight"));
  CHECK(glob_match("*q_proj*", "model.layers.0.self_attn.q_proj.weight"));
  CHECK_FALSE(glob_match("*.bias", "model.norm.weight"));
  CHECK_FALSE(glob_match("", "a"));
  CHECK(glob_match("", ""));
}

TEST_CASE("what stands at both ends of a pattern is in the text twice") {
  CHECK(glob_match("ab*ba", "abba"));
  CHECK_FALSE(glob_match("ab*ba", "aba"));
  CHECK_FALSE(glob_match("a[b]a", "aa"));
}

TEST_CASE("question marks, sets and alternatives") {
  CHECK(glob_match("layers.?.w", "layers.3.w"));
  CHECK_FALSE(glob_match("layers.?.w", "layers.13.w"));
  CHECK(glob_match("l[0-3x]", "l2"));
  CHECK(glob_match("l[0-3x]", "lx"));
  CHECK_FALSE(glob_match("l[0-3x]", "l4"));
  CHECK(glob_match("l[!0-3]", "l4"));
  CHECK_FALSE(glob_match("l[!0-3]", "l2"));
  CHECK(glob_match("[]]", "]"));
  CHECK(glob_match("{q,k,v}_proj", "k_proj"));
  CHECK_FALSE(glob_match("{q,k,v}_proj", "o_proj"));
  CHECK(glob_match("a{,b{c,d}*}e", "ae"));
  CHECK(glob_match("a{,b{c,d}*}e", "abdxyze"));
  CHECK_FALSE(glob_match("a{,b{c,d}*}e", "abe"));
}

TEST_CASE("case matters, and unclosed brackets stand for themselves") {
  CHECK_FALSE(glob_match("A", "a"));
  CHECK(glob_match("a[b", "a[b"));
  CHECK(glob_match("a{b", "a{b"));
  CHECK(glob_match("a}b]", "a}b]"));
}

TEST_CASE("patterns that would take a backtracker for ever are quick") {
  std::string pattern, text;
  for (int i = 0; i < 40; ++i) {
    pattern += "*{a,aa}";
    text += "aa";
  }
  CHECK(glob_match(pattern, text));
  CHECK_FALSE(glob_match(pattern + "b", text));
}

TEST_CASE("patterns of strangers have a length and a depth") {
  using am::glob_problem;
  const auto nested = [](int depth, bool closed) {
    std::string pattern;
    for (int i = 0; i < depth; ++i) pattern += "{a,";
    return pattern + "b" + (closed ? std::string(static_cast<size_t>(depth), '}') : "");
  };
  CHECK(glob_problem(nested(64, true)).empty());
  CHECK(glob_match(nested(64, true), "b"));
  CHECK(glob_match(nested(64, true), "a"));
  CHECK_FALSE(glob_match(nested(64, true), "c"));
  for (const bool closed : {true, false}) {
    CHECK(glob_problem(nested(65, closed)) == "nests braces more than 64 levels deep");
  }
  CHECK_THROWS_AS(glob_match(nested(100'000, true), "b"), am::Error);
  CHECK(glob_problem("*" + std::string(16 << 10, 'a')) ==
        "has 16385 characters; the limit is 16384");
  // The length limit applies only to patterns with special characters.
  CHECK(glob_problem(std::string(100'000, 'a')).empty());
  // Many opening brackets without a closing one are matched in linear time: the search for a
  // closing bracket is not repeated for each of them.
  const std::string open(16 << 10, '[');
  CHECK(glob_match(open, open));
  std::string many;
  for (int i = 0; i < 4000; ++i) many += "{a}[";
  CHECK_FALSE(glob_match(many, "b"));
}

TEST_CASE("is_glob tells patterns from names") {
  CHECK(is_glob("a*"));
  CHECK(is_glob("{a,b}"));
  CHECK_FALSE(is_glob("model.layers.0.self_attn.q_proj.weight"));
}
