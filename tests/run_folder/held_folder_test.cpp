#include "am/run_folder/held_folder.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <string>

#include "am/base/error.h"
#include "am/base/file.h"
#include "am/run_folder/run_lock.h"
#include "support/temporary_folder.h"

namespace am::run_folder {
namespace {

namespace fs = std::filesystem;

// Returns the message of the error that held.require() throws; empty if it throws none.
std::string lost(const HeldFolder& held) {
  try {
    held.require();
    return {};
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::kIo);
    CHECK_FALSE(error.hint().empty());
    return error.what();
  }
}

}  // namespace

TEST_CASE("a folder that is moved, removed or replaced is noticed, with its lock and without") {
  const TemporaryFolder folder;
  const fs::path run = folder / "run";
  const fs::path moved = folder / "moved";
  fs::create_directory(run);
  if (GENERATE(false, true)) write_text(run / "lock", "somebody\n");
  const HeldFolder held(run);
  CHECK(lost(held).empty());
  CHECK(held.anywhere() == run);

  fs::rename(run, moved);
  CHECK_THAT(lost(held), Catch::StartsWith(run.string() + ": the folder was moved to ") &&
                             Catch::Contains(moved.string()));
  write_own_file(held.anywhere() / "note", "here");
  CHECK(read_file(moved / "note") == "here");

  SECTION("and is back") {
    fs::rename(moved, run);
    CHECK(lost(held).empty());
  }
  SECTION("and has a link to it in its place") {
    fs::create_directory_symlink(moved, run);
    CHECK(lost(held).empty());
  }
  SECTION("and a copy is in its place") {
    fs::copy(moved, run, fs::copy_options::recursive);
    CHECK_THAT(lost(held), Catch::Contains("now leads to another folder"));
    fs::remove(held.opened() / "note");
    CHECK_FALSE(fs::exists(moved / "note"));
    CHECK(fs::exists(run / "note"));
  }
  SECTION("and a link to another folder is in its place") {
    fs::create_directory(folder / "other");
    fs::create_directory_symlink(folder / "other", run);
    CHECK_THAT(lost(held), Catch::Contains("now leads to another folder"));
  }
  SECTION("and removed there; the next folder may have its inode") {
    fs::remove_all(moved);
    CHECK_THAT(lost(held), Catch::Contains("the folder was removed or moved"));
    fs::create_directory(run);
    CHECK_THAT(lost(held), Catch::Contains("now leads to another folder"));
  }
}

TEST_CASE("a lock that is gone, or another's, is noticed") {
  const TemporaryFolder folder;
  write_text(folder / "lock", "ours\n");
  const HeldFolder held(folder.path());
  fs::rename(folder / "lock", folder / "kept");
  CHECK_THAT(lost(held), Catch::Contains("its file lock was removed"));
  write_text(folder / "lock", "theirs\n");
  CHECK_THAT(lost(held), Catch::Contains("its file lock was replaced"));
  fs::rename(folder / "kept", folder / "lock");
  CHECK(lost(held).empty());
}

TEST_CASE("a folder that cannot be opened is not held") {
  CHECK(lost(HeldFolder("/proc/none")).empty());
}

TEST_CASE("a lock says whose job it is held for") {
  const TemporaryFolder folder;
  CHECK_FALSE(RunLock::is_held_for(folder.path(), "a"));
  {
    const RunLock lock = RunLock::take(folder.path(), {.job = "a"});
    CHECK(RunLock::is_held_for(folder.path(), "a"));
    CHECK_FALSE(RunLock::is_held_for(folder.path(), "b"));
  }
  CHECK_FALSE(RunLock::is_held_for(folder.path(), "a"));
}

}  // namespace am::run_folder
