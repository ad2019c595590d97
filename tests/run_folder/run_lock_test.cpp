#include "am/run_folder/run_lock.h"

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <csignal>
#include <fstream>
#include <thread>

#include "am/base/error.h"
#include "am/base/file.h"
#include "am/base/host.h"
#include "am/base/json.h"
#include "am/base/text.h"
#include "support/temporary_folder.h"

using namespace am;
using namespace am::run_folder;
using namespace std::chrono_literals;

namespace {

LockOptions quick(const std::string& job) {
  LockOptions options;
  options.job = job;
  options.patience = 20ms;
  options.beat = 20ms;
  options.silence = 300ms;
  options.aftermath = 20ms;
  return options;
}

void leave_lock(const TemporaryFolder& folder, const std::string& boot, int64_t pid) {
  std::ofstream(folder / "lock") << Json({{"host", "node-9"},
                                          {"pid", pid},
                                          {"boot_id", boot},
                                          {"begun", 1},
                                          {"since", "2026-01-02 03:04:05"},
                                          {"job", "older"}});
}

std::string refusal_in(const TemporaryFolder& folder, const LockOptions& options) {
  try {
    RunLock::take(folder.path(), options);
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::kPlan);
    CHECK_THAT(error.hint(), Catch::Contains("--run-dir"));
    return error.what();
  }
  return "taken";
}

// An id that no process has: on Linux, process ids are smaller than 2^22 = 4194304.
constexpr int64_t kNobody = 4'194'999;

}  // namespace

TEST_CASE("a second job in a folder is refused, and the first one named") {
  const TemporaryFolder folder;
  {
    const RunLock first = RunLock::take(folder.path(), quick("job-a"));
    CHECK(first.left_by().empty());
    const std::string said = refusal_in(folder, quick("job-b"));
    CHECK_THAT(said, Catch::StartsWith(folder.path().string()));
    CHECK_THAT(said, Catch::Contains(cat("process ", ::getpid(), " on ", host_name())));
    CHECK_THAT(said, Catch::Contains("job job-a"));
    const Json json = Json::parse(read_file(folder / "lock"));
    CHECK(json["boot_id"] == boot_id());
  }
  CHECK(read_file(folder / "lock").empty());
  const RunLock next = RunLock::take(folder.path(), quick("job-b"));
  CHECK(next.left_by().empty());
}

TEST_CASE("a holder that goes in time is waited for") {
  const TemporaryFolder folder;
  auto first = std::make_unique<RunLock>(RunLock::take(folder.path(), quick("job-a")));
  std::thread ends([&] {
    std::this_thread::sleep_for(50ms);
    first.reset();
  });
  LockOptions patient = quick("job-b");
  patient.patience = 60s;
  const RunLock second = RunLock::take(folder.path(), patient);
  ends.join();
}

TEST_CASE("the lock of a process that was killed is taken over") {
  const TemporaryFolder folder;
  const pid_t child = ::fork();
  if (child == 0) {
    const RunLock held = RunLock::take(folder.path(), quick("job-a"));
    ::raise(SIGKILL);
  }
  ::waitpid(child, nullptr, 0);
  REQUIRE_FALSE(read_file(folder / "lock").empty());
  const RunLock next = RunLock::take(folder.path(), quick("job-b"));
  CHECK(next.left_by() == cat("process ", child, " on ", host_name()));
}

TEST_CASE("the ranks of a job whose launcher was killed hold the folder until they are gone") {
  const TemporaryFolder folder;
  const pid_t launcher = ::fork();
  if (launcher == 0) {
    const RunLock held = RunLock::take(folder.path(), quick("job-a"));
    if (::fork() == 0) {
      ::execl("/bin/sh", "sh", "-c", "sleep 0.3", nullptr);
      ::_exit(1);
    }
    ::raise(SIGKILL);
  }
  ::waitpid(launcher, nullptr, 0);
  LockOptions options = quick("job-b");
  options.aftermath = 1ms;
  CHECK_THAT(refusal_in(folder, options), Catch::Contains(cat("process ", launcher, " on ")));
  options.aftermath = 60s;
  const RunLock next = RunLock::take(folder.path(), options);
  CHECK(next.left_by() == cat("process ", launcher, " on ", host_name()));
}

TEST_CASE("another machine's lock counts as long as it shows a sign of life") {
  const TemporaryFolder folder;
  leave_lock(folder, "the boot of another machine", ::getpid());
  SECTION("it shows none") {
    const RunLock next = RunLock::take(folder.path(), quick("job-b"));
    CHECK(next.left_by() == cat("process ", ::getpid(), " on node-9"));
  }
  SECTION("its time moves") {
    std::atomic<bool> over = false;
    std::thread beats([&] {
      while (!over) {
        std::filesystem::last_write_time(folder / "lock",
                                         std::filesystem::file_time_type::clock::now());
        std::this_thread::sleep_for(10ms);
      }
    });
    const std::string said = refusal_in(folder, quick("job-b"));
    over = true;
    beats.join();
    CHECK_THAT(said, Catch::Contains("on node-9, since 2026-01-02 03:04:05, job older"));
  }
}

TEST_CASE("a holder touches its file") {
  const TemporaryFolder folder;
  const RunLock lock = RunLock::take(folder.path(), quick("job-a"));
  const auto first = std::filesystem::last_write_time(folder / "lock");
  for (int i = 0; i < 500 && std::filesystem::last_write_time(folder / "lock") == first; ++i) {
    std::this_thread::sleep_for(10ms);
  }
  CHECK(std::filesystem::last_write_time(folder / "lock") > first);
}

TEST_CASE("without the kernel's locks the file's words count") {
  const TemporaryFolder folder;
  LockOptions options = quick("job-b");
  options.kernel_lock = false;
  SECTION("a holder that is alive") {
    const RunLock first = RunLock::take(folder.path(), options);
    CHECK_THAT(refusal_in(folder, options), Catch::Contains("another job writes to this folder"));
  }
  SECTION("one that is gone, or whose process id another process has now") {
    leave_lock(folder, boot_id(), GENERATE(kNobody, int64_t{1}));
    const RunLock next = RunLock::take(folder.path(), options);
    CHECK_THAT(next.left_by(), Catch::EndsWith("on node-9"));
  }
}

TEST_CASE("a lock that no am-run wrote is watched, then taken") {
  const TemporaryFolder folder;
  std::ofstream(folder / "lock") << "{\"host\": 3";
  const RunLock next = RunLock::take(folder.path(), quick("job-b"));
  CHECK(next.left_by() == "an unknown process");
}
