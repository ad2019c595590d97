#include "am/launch/cause/rank_error.h"

#include <catch2/catch.hpp>
#include <chrono>
#include <fstream>

#include "am/base/text.h"
#include "support/temporary_folder.h"

using namespace am;
using namespace am::launch;

namespace {}  // namespace

TEST_CASE("an error file reads back") {
  const TemporaryFolder folder;
  RankError error =
      rank_error(Error(ErrorKind::kIo, "data.bin: no such file", "check data.path"), 3);
  CHECK(error.kind == "io");
  CHECK(error.exit_status == 2);
  error.step = 12;
  error.last_collective = "all_gather dp_shard #7";
  error.missing = {1, 4};
  write_error_file(folder / "e.json", error);
  const auto read = read_error_file(folder / "e.json");
  REQUIRE(read);
  CHECK(read->rank == 3);
  CHECK(read->message == "data.bin: no such file");
  CHECK(read->hint == "check data.path");
  CHECK(read->kind == "io");
  CHECK(read->exit_status == 2);
  CHECK(read->step == 12);
  CHECK(read->last_collective == "all_gather dp_shard #7");
  CHECK(read->missing == std::vector<int64_t>{1, 4});
  CHECK(read->time > 1.6e9);
}

TEST_CASE("a message that is no UTF-8 is still written") {
  const TemporaryFolder folder;
  RankError error;
  error.message = "bad byte \xff here";
  write_error_file(folder / "e.json", error);
  CHECK_THAT(read_error_file(folder / "e.json")->message, Catch::StartsWith("bad byte"));
}

TEST_CASE("torch's elastic error file is read too") {
  const TemporaryFolder folder;
  write_text(
      folder / "e.json",
      R"({"message": {"message": "ValueError: x", "extraInfo": {"timestamp": "1700000000"}}})");
  const auto read = read_error_file(folder / "e.json");
  REQUIRE(read);
  CHECK(read->message == "ValueError: x");
  CHECK(read->kind == kElasticError);
}

TEST_CASE("the time of torch's error file is the file's, within the second that it names") {
  const TemporaryFolder folder;
  const auto path = folder / "e.json";
  const auto time_of = [&](double written) {
    write_text(path, R"({"message": {"message": "x", "extraInfo": {"timestamp": "1700000000"}}})");
    const std::chrono::duration<double> since_epoch(written);
    const auto when = std::chrono::sys_time<std::chrono::nanoseconds>(
        std::chrono::duration_cast<std::chrono::nanoseconds>(since_epoch));
    std::filesystem::last_write_time(path, std::chrono::file_clock::from_sys(when));
    return read_error_file(path)->time;
  };
  CHECK(time_of(1700000000.625) == Approx(1700000000.625).epsilon(0).margin(1e-3));
  CHECK(time_of(1700000050.0) == 1700000001.0);  // the clock of the file server is wrong
  CHECK(time_of(1699999900.0) == 1700000000.0);
}

TEST_CASE("what was reported before a moment, for certain") {
  RankError error;
  error.time = 10.0;
  CHECK(was_before(error, 10.01));
  CHECK_FALSE(was_before(error, 10.0));
  error.kind = kElasticError;
  CHECK_FALSE(was_before(error, 10.01));
  CHECK(was_before(error, 10.1));
  error.time = 0.0;
  CHECK_FALSE(was_before(error, 10.1));
}

TEST_CASE("what is no error file gives nothing") {
  const TemporaryFolder folder;
  CHECK_FALSE(read_error_file(folder / "missing.json"));
  CHECK_FALSE(read_error_file(folder.path()));
  for (const char* text : {"", "{", "[]", "3", R"({"rank": 1})", R"({"message": 4})"}) {
    write_text(folder / "e.json", text);
    CHECK_FALSE(read_error_file(folder / "e.json"));
  }
}

TEST_CASE("the first report of a process stands") {
  const TemporaryFolder folder;
  const std::string path = (folder / "e.json").string();
  const auto lookup = [&](const std::string& name) -> std::optional<std::string> {
    if (name == "AM_ERROR_FILE") return path;
    return std::nullopt;
  };
  RankError error;
  error.message = "first";
  CHECK(report_error(lookup, error));
  error.message = "second";
  CHECK_FALSE(report_error(lookup, error));
  CHECK(read_error_file(path)->message == "first");
}

TEST_CASE("a report that cannot be written is silent") {
  RankError error;
  error.message = "lost";
  CHECK_FALSE(report_error([](const std::string&) { return std::nullopt; }, error));
  CHECK_FALSE(report_error(
      [](const std::string&) -> std::optional<std::string> { return "/proc/none/e.json"; }, error));
}

TEST_CASE("an error goes through the pipe, where no file can be written") {
  const ErrorPipe pipe;
  const std::string address = pipe.address();
  const auto lookup = [&](const std::string& name) -> std::optional<std::string> {
    if (name == "AM_ERROR_PIPE") return address;
    return "/proc/none/e.json";
  };
  CHECK_FALSE(pipe.read());
  RankError error;
  error.message = std::string(100000, 'x');
  CHECK(report_error(lookup, error));
  error.message = "second";
  CHECK_FALSE(report_error(lookup, error));
  const auto told = pipe.read();
  REQUIRE(told);
  CHECK(told->message.size() == 16384);
  CHECK(told->time > 0.0);
}

TEST_CASE("a descriptor that is another file's by now is not written to") {
  const TemporaryFolder folder;
  const ErrorPipe pipe;
  const ErrorPipe other;
  const std::string inode = pipe.address().substr(pipe.address().find(':'));
  for (const std::string& address : {cat(other.write_end(), inode), cat("99999", inode),
                                     cat("-1", inode), std::string("7"), std::string()}) {
    const std::string path = (folder / cat("e", address.size(), ".json")).string();
    std::filesystem::remove(path);
    const auto lookup = [&](const std::string& name) -> std::optional<std::string> {
      return name == "AM_ERROR_PIPE" ? address : path;
    };
    RankError error;
    error.message = "in the file";
    CHECK(report_error(lookup, error));
    CHECK(read_error_file(path)->message == "in the file");
  }
  CHECK_FALSE(pipe.read());
  CHECK_FALSE(other.read());
}
