#include "am/base/home.h"

#include <catch2/catch.hpp>
#include <cstdlib>

#include "am/base/error.h"

using namespace am;

TEST_CASE("a home folder is put in the place of ~, and of nothing else") {
  const char* before = std::getenv("HOME");
  const std::string kept = before != nullptr ? before : "";
  ::setenv("HOME", "/home/me", 1);
  CHECK(expand_home("~") == "/home/me");
  CHECK(expand_home("~/a b/c") == "/home/me/a b/c");
  CHECK(expand_home("a/~/b") == "a/~/b");
  CHECK(expand_home("./~") == "./~");
  CHECK(expand_home("").empty());
  CHECK_THROWS_AS(expand_home("~you/x"), Error);
  ::unsetenv("HOME");
  CHECK_THROWS_AS(expand_home("~/x"), Error);
  if (before != nullptr) ::setenv("HOME", kept.c_str(), 1);
}
