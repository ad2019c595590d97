// Tests faults: ranks that hang, ranks that leave child processes behind, and launchers that die.
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <csignal>
#include <fstream>

#include "am/launch/supervise/local.h"
#include "am/launch/supervise/orphan_guard.h"
#include "am/launch/supervise/process.h"
#include "launch/supervise/default_action.h"
#include "launch/supervise/job_support.h"

using namespace am;
using namespace am::launch;
using namespace launch_test;

namespace {

// Starts a launcher in a separate process, so that the test can kill it.
pid_t start_launcher(const JobSpec& job) {
  const pid_t launcher = ::fork();
  if (launcher == 0) {
    try {
      supervise(job, {});
    } catch (...) {
    }
    ::_exit(0);
  }
  return launcher;
}

}  // namespace

TEST_CASE("a rank that hangs is the cause, and how the launcher ended it is not") {
  const TemporaryFolder folder;
  JobSpec job =
      shell_job(folder, 2,
                "if [ $RANK = 1 ]; then trap '' TERM; echo before the hang; touch $DIR/deaf; "
                "while :; do sleep 0.05; done; fi; until [ -e $DIR/deaf ]; do sleep 0.01; done; "
                "echo '{\"message\":\"timed out\",\"kind\":\"hang\",\"missing\":[1],\"step\":3,"
                "\"last_collective\":\"all_reduce dp #9\",\"time\":1.0}' > $AM_ERROR_FILE; exit 1");
  job.settle_seconds = 0.1;
  job.grace_seconds = 0.3;
  const JobResult result = supervise(job, {});
  CHECK(result.exit_status == 1);
  REQUIRE(result.cause);
  CHECK(result.cause->rank == 1);
  CHECK(result.ranks[1].signal == SIGKILL);
  CHECK(result.ranks[1].stopped);
  CHECK_THAT(describe(result),
             Catch::StartsWith(
                 "rank 1 on node 0 hangs at step 3: it did not arrive at all_reduce dp #9\n") &&
                 Catch::Contains("    | before the hang\n"));
}

TEST_CASE("a stopped rank hears that it shall end") {
  const TemporaryFolder folder;
  const JobSpec job = shell_job(folder, 2,
                                "if [ $RANK = 1 ]; then trap 'echo woke > $DIR/woke; exit 0' TERM; "
                                "echo $$ > $DIR/pid; kill -STOP $$; while :; do sleep 0.02; done; "
                                "fi; until grep -q '^State:.T' /proc/$(cat $DIR/pid)/status; do "
                                "sleep 0.02; done 2> /dev/null; exit 3");
  const JobResult result = supervise(job, {});
  CHECK(result.exit_status == 3);
  CHECK(std::filesystem::exists(folder / "woke"));
  CHECK_FALSE(result.killed);
}

TEST_CASE("what a rank started does not outlive it") {
  const TemporaryFolder folder;
  const JobSpec job = shell_job(folder, 1, "sleep 60 & echo $! > $DIR/pid; exit 0");
  CHECK(supervise(job, {}).exit_status == 0);
  const pid_t pid = pid_in(folder / "pid");
  REQUIRE(pid > 0);
  CHECK(soon([&] { return is_gone(pid); }));
}

TEST_CASE("the program below a shell may finish when the user stops the job") {
  // The shell dies of SIGTERM immediately; its child program first writes a file and then exits.
  const DefaultAction not_ignored(SIGTERM);
  const TemporaryFolder folder;
  std::ofstream(folder / "program")
      << "trap 'sleep 0.3; echo saved > $DIR/saved; exit 0' TERM; echo ready; "
         "while :; do sleep 0.02; done\n";
  const JobSpec job = shell_job(folder, 1, "sh $DIR/program; echo not reached");
  const JobResult result = supervise(job, signal_on_ready(SIGTERM));
  CHECK(std::filesystem::exists(folder / "saved"));
  CHECK_FALSE(result.killed);
}

TEST_CASE("the program below a shell is killed when the time is over") {
  const DefaultAction not_ignored(SIGTERM);
  const TemporaryFolder folder;
  std::ofstream(folder / "program") << "trap '' TERM; echo $$ > $DIR/pid; echo ready; "
                                       "while :; do sleep 0.02; done\n";
  JobSpec job = shell_job(folder, 1, "sh $DIR/program; echo not reached");
  job.stop_seconds = 0.2;
  const JobResult result = supervise(job, signal_on_ready(SIGTERM));
  CHECK(result.exit_status == 1);
  CHECK(result.killed);
  const pid_t pid = pid_in(folder / "pid");
  REQUIRE(pid > 0);
  CHECK(soon([&] { return is_gone(pid); }));
}

TEST_CASE("a launcher killed by SIGKILL leaves no rank, nor what the ranks started") {
  const TemporaryFolder folder;
  const pid_t launcher = start_launcher(shell_job(
      folder, 2,
      "trap '' TERM INT HUP; sh -c 'echo $$ > $DIR/child-$RANK; while :; do sleep 0.05; done' & "
      "echo $$ > $DIR/rank-$RANK; while :; do sleep 0.05; done"));
  const std::vector<std::string> names = {"rank-0", "rank-1", "child-0", "child-1"};
  const bool started = soon([&] {
    return std::all_of(names.begin(), names.end(),
                       [&](const std::string& name) { return has_line(folder / name); });
  });
  ::kill(launcher, SIGKILL);
  ::waitpid(launcher, nullptr, 0);
  REQUIRE(started);
  for (const std::string& name : names) {
    const pid_t pid = pid_in(folder / name);
    REQUIRE(pid > 0);
    CHECK(soon([&] { return is_gone(pid); }));
  }
}

TEST_CASE("the guard kills what is watched, and not what is forgotten") {
  pid_t watched = 0;
  pid_t forgotten = 0;
  {
    const OrphanGuard guard;
    const auto sleeper = [&] {
      return spawn({.argv = {"sleep", "60"},
                    .environment = {},
                    .output_fd = STDERR_FILENO,
                    .birth_fd = guard.birth_fd()});
    };
    watched = sleeper();
    forgotten = sleeper();
    guard.forget(forgotten);
  }
  CHECK(soon([&] { return is_gone(watched); }));
  CHECK_FALSE(is_gone(forgotten));
  ::kill(forgotten, SIGKILL);
  ::waitpid(watched, nullptr, 0);
  ::waitpid(forgotten, nullptr, 0);
}
