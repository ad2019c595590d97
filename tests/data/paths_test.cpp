#include "am/data/paths.h"

#include <catch2/catch.hpp>
#include <fstream>

#include "am/base/error.h"
#include "support/temporary_folder.h"

using namespace am;
using namespace am::data;
namespace fs = std::filesystem;

namespace {

std::vector<std::string> names(const TemporaryFolder& folder, const std::string& path) {
  std::vector<std::string> result;
  for (const fs::path& file : expand_path(folder / path)) {
    result.push_back(file.lexically_relative(folder.path()).string());
  }
  return result;
}

using Names = std::vector<std::string>;

}  // namespace

TEST_CASE("a folder stands for its files, sorted, each once") {
  const TemporaryFolder folder;
  write_text(folder / "t/b.txt", "b");
  write_text(folder / "t/a/z.txt", "z");
  write_text(folder / "t/a.txt", "a");
  write_text(folder / "t/empty", "");
  write_text(folder / "outside.txt", "o");
  fs::create_symlink("b.txt", folder / "t/A-link-to-b");
  fs::create_symlink("../outside.txt", folder / "t/c");
  fs::create_symlink("../outside.txt", folder / "t/d");
  fs::create_symlink("nowhere", folder / "t/dangling");
  fs::create_directory_symlink("a", folder / "t/folder-link");
  CHECK(names(folder, "t") == Names{"t/a.txt", "t/a/z.txt", "t/b.txt", "t/c"});
}

TEST_CASE("a glob stands for what it matches") {
  const TemporaryFolder folder;
  write_text(folder / "x/one/copyright", "1");
  write_text(folder / "x/two/copyright", "2");
  write_text(folder / "x/two/readme", "r");
  fs::create_directory_symlink("two", folder / "x/alias");
  CHECK(names(folder, "x/*/copyright") == Names{"x/one/copyright", "x/two/copyright"});
  CHECK(names(folder, "x/t[vw]o") == Names{"x/two/copyright", "x/two/readme"});
  CHECK(names(folder, "x/{one,two}/copyright") == Names{"x/one/copyright", "x/two/copyright"});
}

TEST_CASE("a file is itself, even when its name looks like a pattern") {
  const TemporaryFolder folder;
  write_text(folder / "a[1].txt", "x");
  write_text(folder / "empty", "");
  CHECK(names(folder, "a[1].txt") == Names{"a[1].txt"});
  CHECK(names(folder, "empty") == Names{"empty"});
}

TEST_CASE("a path that gives nothing is an error that names it") {
  const TemporaryFolder folder;
  fs::create_directory(folder / "hollow");
  write_text(folder / "hollow/empty", "");
  for (const char* name : {"missing", "*.txt", "hollow", "missing/x"}) {
    try {
      expand_path(folder / name);
      FAIL("expanded " << name);
    } catch (const Error& error) {
      CHECK(error.kind() == ErrorKind::kIo);
      CHECK_THAT(error.what(), Catch::Contains(name));
    }
  }
  CHECK_THROWS_AS(expand_path("/dev/null"), Error);
}
