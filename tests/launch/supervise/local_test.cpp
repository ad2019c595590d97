// ctest: waits
#include "am/launch/supervise/local.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <csignal>
#include <fstream>

#include "am/base/error.h"
#include "am/base/file.h"
#include "launch/supervise/default_action.h"
#include "launch/supervise/job_support.h"

using namespace am;
using namespace am::launch;
using namespace launch_test;

TEST_CASE("all ranks succeed: environment, logs and rank 0's output") {
  const TemporaryFolder folder;
  const int64_t descriptors = open_descriptors();
  JobSpec job = shell_job(folder, 3,
                          "echo rank $RANK of $WORLD_SIZE local $LOCAL_RANK $MASTER_ADDR $MINE; "
                          "echo to stderr >&2; test -n \"$MASTER_PORT\" -a ! -t 0 && ! read line");
  job.environment.emplace_back("MINE", "a b");
  Seen seen;
  const JobResult result = supervise(job, seen.callbacks());
  CHECK(result.exit_status == 0);
  CHECK(describe(result).empty());
  REQUIRE(result.ranks.size() == 3);
  CHECK_FALSE(result.cause);
  CHECK(seen.output == "rank 0 of 3 local 0 127.0.0.1 a b\nto stderr\n");
  CHECK(read_file(folder / "logs/rank-0.log") == seen.output);
  CHECK(read_file(folder / "logs/rank-2.log") == "rank 2 of 3 local 2 127.0.0.1 a b\nto stderr\n");
  CHECK(seen.events == std::vector<JobEventKind>{JobEventKind::kStarted});
  CHECK(open_descriptors() == descriptors);
}

TEST_CASE("a rank ignores no signal, though the launcher does") {
  const auto old = ::signal(SIGUSR2, SIG_IGN);
  const TemporaryFolder folder;
  const JobSpec job = shell_job(folder, 1, "exec grep SigIgn /proc/self/status");
  const JobResult result = supervise(job, {});
  ::signal(SIGUSR2, old);
  CHECK(result.exit_status == 0);
  CHECK(read_file(folder / "logs/rank-0.log") == "SigIgn:\t0000000000000000\n");
}

TEST_CASE("the second of two nodes numbers its ranks after the first's") {
  const TemporaryFolder folder;
  JobSpec job = shell_job(folder, 2, "echo $RANK $LOCAL_RANK $GROUP_RANK $WORLD_SIZE $MASTER_PORT");
  job.num_nodes = 2;
  job.node_rank = 1;
  job.master_addr = "n01";
  job.master_port = 29400;
  Seen seen;
  CHECK(supervise(job, seen.callbacks()).exit_status == 0);
  CHECK(seen.output.empty());
  CHECK(read_file(folder / "logs/rank-3.log") == "3 1 1 4 29400\n");
}

TEST_CASE("a log longer than a pipe holds comes through whole") {
  const TemporaryFolder folder;
  Seen seen;
  const JobSpec job =
      shell_job(folder, 1, "i=0; while [ $i -lt 10000 ]; do echo line $i; i=$((i+1)); done");
  CHECK(supervise(job, seen.callbacks()).exit_status == 0);
  CHECK(std::count(seen.output.begin(), seen.output.end(), '\n') == 10000);
  CHECK(ends_with(seen.output, "line 9999\n"));
  CHECK(read_file(folder / "logs/rank-0.log") == seen.output);
}

TEST_CASE("one rank's exit status ends the job, and its last lines are kept") {
  const TemporaryFolder folder;
  JobSpec job =
      shell_job(folder, 3,
                "if [ $RANK = 1 ]; then for i in 1 2 3 4; do echo line $i; done; exit 3; fi; "
                "exec sleep 60");
  job.tail_lines = 2;
  const auto start = Clock::now();
  Seen seen;
  const JobResult result = supervise(job, seen.callbacks());
  CHECK(seconds_since(start) < 20.0);
  CHECK(result.exit_status == 3);
  REQUIRE(result.cause);
  CHECK(result.cause->rank == 1);
  CHECK(result.ranks[1].tail == std::vector<std::string>{"line 3", "line 4"});
  for (const size_t other : {0, 2}) {
    CHECK(result.ranks[other].stopped);
    CHECK(result.ranks[other].signal == SIGTERM);
  }
  CHECK(seen.events ==
        std::vector<JobEventKind>{JobEventKind::kStarted, JobEventKind::kRankFailed});
  CHECK_THAT(describe(result), Catch::StartsWith("rank 1 on node 0 failed: exit status 3\n") &&
                                   Catch::Contains("    | line 4\n") &&
                                   Catch::Contains("rank-1.log") &&
                                   Catch::Contains("ranks 0, 2 stopped by the launcher"));
}

TEST_CASE("the tail is of this run, though the log goes on") {
  const TemporaryFolder folder;
  const JobSpec first = shell_job(folder, 1, "echo old; exit 1");
  supervise(first, {});
  const JobSpec second = shell_job(folder, 1, "echo new; exit 1");
  const JobResult result = supervise(second, {});
  CHECK(result.ranks[0].tail == std::vector<std::string>{"new"});
  CHECK(read_file(folder / "logs/rank-0.log") == "old\nnew\n");
}

TEST_CASE("a rank killed by a signal is the cause, with status 1") {
  const TemporaryFolder folder;
  const JobSpec job = shell_job(folder, 2, "[ $RANK = 1 ] && kill -KILL $$; exec sleep 60");
  const JobResult result = supervise(job, {});
  CHECK(result.exit_status == 1);
  REQUIRE(result.cause);
  CHECK(result.cause->rank == 1);
  CHECK(result.ranks[1].signal == SIGKILL);
  CHECK_FALSE(result.ranks[1].stopped);
  CHECK_THAT(describe(result),
             Catch::StartsWith("rank 1 on node 0 failed: signal SIGKILL (Killed)"));
}

TEST_CASE("a rank that ignores SIGTERM is killed after the grace time") {
  const TemporaryFolder folder;
  JobSpec job = shell_job(folder, 2,
                          "if [ $RANK = 0 ]; then trap '' TERM; touch $DIR/deaf; "
                          "while :; do sleep 0.05; done; fi; "
                          "until [ -e $DIR/deaf ]; do sleep 0.01; done; exit 5");
  job.grace_seconds = 0.3;
  const auto start = Clock::now();
  const JobResult result = supervise(job, {});
  CHECK(seconds_since(start) < 20.0);
  CHECK(result.exit_status == 5);
  REQUIRE(result.cause);
  CHECK(result.cause->rank == 1);
  CHECK(result.killed);
  CHECK(result.ranks[0].signal == SIGKILL);
  CHECK(result.ranks[0].stopped);
}

TEST_CASE("a lost peer waits for the rank that failed") {
  const TemporaryFolder folder;
  const JobSpec job = shell_job(
      folder, 3,
      "case $RANK in "
      "0) echo '{\"message\":\"connection closed\",\"kind\":\"peer\",\"exit_status\":1,"
      "\"time\":1.0}' > $AM_ERROR_FILE; exit 1;; "
      "1) sleep 0.2; echo '{\"message\":\"no space left\",\"kind\":\"io\",\"hint\":\"free "
      "some\",\"exit_status\":2,\"time\":2.0}' > $AM_ERROR_FILE; exit 2;; "
      "2) exec sleep 60;; esac");
  const JobResult result = supervise(job, {});
  CHECK(result.exit_status == 2);
  REQUIRE(result.cause);
  CHECK(result.cause->rank == 1);
  CHECK(result.ranks[1].error->message == "no space left");
  CHECK(result.ranks[2].stopped);
  CHECK_THAT(describe(result), Catch::Contains("  error: no space left\n  help: free some\n"));
}

TEST_CASE("a lost peer alone ends the job after the settle time") {
  const TemporaryFolder folder;
  JobSpec job = shell_job(
      folder, 2,
      "[ $RANK = 1 ] && exec sleep 60; "
      "echo '{\"message\":\"timed out\",\"kind\":\"peer\",\"time\":1.0}' > $AM_ERROR_FILE; exit 1");
  job.settle_seconds = 0.3;
  const auto start = Clock::now();
  const JobResult result = supervise(job, {});
  CHECK(seconds_since(start) >= 0.3);
  CHECK(seconds_since(start) < 20.0);
  REQUIRE(result.cause);
  CHECK(result.cause->rank == 0);
  CHECK(result.ranks[1].stopped);
}

// A shell function that reports an error as `record` of torch.distributed.elastic does for a Python
// program. The time in the report is in whole seconds.
const std::string kRecord =
    "record() { echo \"{\\\"message\\\":{\\\"message\\\":\\\"connection closed\\\","
    "\\\"extraInfo\\\":{\\\"timestamp\\\":\\\"$(date +%s)\\\"}}}\" > $TORCHELASTIC_ERROR_FILE; "
    "exit 1; }; ";

TEST_CASE("torch's report of a rank that was stopped is no cause, though its second had begun") {
  const TemporaryFolder folder;
  const JobSpec job = shell_job(folder, 2,
                                kRecord +
                                    "if [ $RANK = 0 ]; then trap record TERM; touch $DIR/up; "
                                    "while :; do sleep 0.02; done; fi; "
                                    "until [ -e $DIR/up ]; do sleep 0.01; done; "
                                    "until [ $(date +%N | cut -c1) = 6 ]; do sleep 0.01; done; "
                                    "kill -KILL $$");
  const JobResult result = supervise(job, {});
  REQUIRE(result.cause);
  CHECK(result.cause->rank == 1);
  CHECK(result.ranks[0].stopped);
}

TEST_CASE("torch's report of a closed connection waits for the rank that died") {
  const TemporaryFolder folder;
  const JobSpec job =
      shell_job(folder, 3,
                kRecord +
                    "[ $RANK = 0 ] && record; [ $RANK = 2 ] && exec sleep 60; "
                    "until [ -s $DIR/logs/rank-0.error.json ]; do sleep 0.01; done; "
                    "sleep 0.2; kill -SEGV $$");
  const JobResult result = supervise(job, {});
  REQUIRE(result.cause);
  CHECK(result.cause->rank == 1);
  CHECK(result.ranks[2].stopped);
}

TEST_CASE("an error file of an earlier run is not believed") {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder / "logs");
  std::ofstream(folder / "logs/rank-0.error.json") << R"({"message": "old"})";
  const JobResult result = supervise(shell_job(folder, 1, "exit 1"), {});
  CHECK_FALSE(result.ranks[0].error);
}

TEST_CASE("the user's signal lets every rank finish, and the job ends well") {
  const int signal = GENERATE(SIGTERM, SIGINT, SIGHUP);
  const DefaultAction not_ignored(signal);
  const TemporaryFolder folder;
  const JobSpec job = shell_job(folder, 2,
                                "trap 'echo saved > $DIR/saved-$RANK; exit 0' TERM; "
                                "touch $DIR/up-$RANK; until [ -e $DIR/up-0 -a -e $DIR/up-1 ]; do "
                                "sleep 0.01; done; echo ready; while :; do sleep 0.02; done");
  const JobResult result = supervise(job, signal_on_ready(signal));
  CHECK(result.exit_status == 0);
  CHECK(result.stop_signal == signal);
  CHECK_FALSE(result.killed);
  CHECK(std::filesystem::exists(folder / "saved-0"));
  CHECK(std::filesystem::exists(folder / "saved-1"));
}

TEST_CASE("after the user's signal a rank that fails does not hurry those that save") {
  const DefaultAction not_ignored(SIGTERM);
  const TemporaryFolder folder;
  const std::string status = GENERATE(as<std::string>(), "143", "3");
  JobSpec job = shell_job(folder, 2,
                          "trap '[ $RANK = 1 ] && { touch $DIR/left; exit " + status +
                              "; }; until [ -e $DIR/left ]; do sleep 0.01; done; sleep 1.5; "
                              "touch $DIR/saved; exit 0' TERM; touch $DIR/up-$RANK; "
                              "until [ -e $DIR/up-0 -a -e $DIR/up-1 ]; do sleep 0.01; done; "
                              "[ $RANK = 0 ] && echo ready; while :; do sleep 0.02; done");
  job.grace_seconds = 0.3;
  const JobResult result = supervise(job, signal_on_ready(SIGTERM));
  CHECK(std::filesystem::exists(folder / "saved"));
  CHECK_FALSE(result.killed);
  CHECK(result.ranks[0].ok());
  // A shell or a handler reports the death by SIGTERM as exit status 128 + SIGTERM.
  CHECK(result.ranks[1].stopped == (status == "143"));
  CHECK(result.cause.has_value() == (status == "3"));
}

TEST_CASE("a second signal kills at once") {
  const DefaultAction not_ignored(SIGINT);
  const TemporaryFolder folder;
  const JobSpec job = shell_job(folder, 2,
                                "trap '[ $RANK = 0 ] && echo ready' TERM; touch $DIR/up-$RANK; "
                                "until [ -e $DIR/up-0 -a -e $DIR/up-1 ]; do sleep 0.01; done; "
                                "[ $RANK = 0 ] && echo ready; while :; do sleep 0.02; done");
  const auto start = Clock::now();
  const JobResult result = supervise(job, signal_on_ready(SIGINT));
  CHECK(seconds_since(start) < 20.0);
  CHECK(result.exit_status == 1);
  CHECK(result.killed);
  CHECK_FALSE(result.cause);
  CHECK(result.ranks[0].signal == SIGKILL);
  CHECK(result.ranks[1].signal == SIGKILL);
  CHECK_THAT(describe(result), Catch::StartsWith("the job was killed"));
}

TEST_CASE("a rank that does not stop is killed when stop_seconds are over") {
  const TemporaryFolder folder;
  JobSpec job = shell_job(folder, 1, "trap '' TERM; echo ready; while :; do sleep 0.02; done");
  job.stop_seconds = 0.2;
  const JobResult result = supervise(job, signal_on_ready(SIGTERM));
  CHECK(result.exit_status == 1);
  CHECK(result.killed);
  CHECK_FALSE(result.cause);
}

TEST_CASE("a rank that fails while it saves is the cause") {
  const TemporaryFolder folder;
  const JobSpec job = shell_job(
      folder, 1, "trap 'echo disk full; exit 2' TERM; echo ready; while :; do sleep 0.02; done");
  const JobResult result = supervise(job, signal_on_ready(SIGTERM));
  CHECK(result.exit_status == 2);
  REQUIRE(result.cause);
  CHECK(result.cause->rank == 0);
  CHECK(result.ranks[0].tail.back() == "disk full");
}

TEST_CASE("signal handlers are as before when the job is over") {
  struct sigaction before = {};
  struct sigaction after = {};
  ::sigaction(SIGTERM, nullptr, &before);
  const TemporaryFolder folder;
  supervise(shell_job(folder, 1, "true"), {});
  ::sigaction(SIGTERM, nullptr, &after);
  CHECK(before.sa_handler == after.sa_handler);
}

TEST_CASE("without a log folder the tail is there and nothing stays") {
  JobSpec job;
  job.argv = {"/bin/sh", "-c", "echo $AM_ERROR_FILE; exit 4"};
  const JobResult result = supervise(job, {});
  CHECK(result.exit_status == 4);
  REQUIRE(result.ranks[0].tail.size() == 1);
  CHECK(result.ranks[0].log.empty());
  CHECK_FALSE(
      std::filesystem::exists(std::filesystem::path(result.ranks[0].tail[0]).parent_path()));
}

TEST_CASE("a job that cannot start is an error, and nothing is left") {
  const TemporaryFolder folder;
  const auto kind_of = [](const JobSpec& job) {
    try {
      supervise(job, {});
    } catch (const Error& error) {
      return error.kind();
    }
    FAIL("started");
    return ErrorKind::kInternal;
  };
  const int64_t descriptors = open_descriptors();
  JobSpec job = shell_job(folder, 2, "true");
  job.argv = {"no-such-program-anywhere"};
  CHECK(kind_of(job) == ErrorKind::kIo);
  job.argv = {"/dev/null"};
  CHECK(kind_of(job) == ErrorKind::kIo);
  job = shell_job(folder, 1, "true");
  std::ofstream(folder / "file") << "x";
  job.log_folder = folder / "file/logs";
  CHECK(kind_of(job) == ErrorKind::kIo);
  job = shell_job(folder, 0, "true");
  CHECK(kind_of(job) == ErrorKind::kUsage);
  job = shell_job(folder, 1, "true");
  job.num_nodes = 2;
  CHECK(kind_of(job) == ErrorKind::kUsage);
  job.master_port = 1;
  job.node_rank = 2;
  CHECK(kind_of(job) == ErrorKind::kUsage);
  CHECK(open_descriptors() == descriptors);
}

TEST_CASE("a suspended rank is announced while the job waits, and blamed when the others give up") {
  const TemporaryFolder folder;
  JobSpec job = shell_job(folder, 2,
                          "if [ $RANK = 1 ]; then kill -STOP $$; fi; "
                          "while [ ! -e $DIR/announced ]; do sleep 0.05; done; exit 1");
  JobCallbacks callbacks;
  JobEvent announced;
  callbacks.event = [&](const JobEvent& event) {
    if (event.kind != JobEventKind::kRankSuspended) return;
    announced = event;
    std::ofstream(folder / "announced") << "\n";
  };
  job.grace_seconds = 1.0;
  const JobResult result = supervise(job, callbacks);
  CHECK(announced.rank == 1);
  CHECK(announced.pid > 0);
  REQUIRE(result.cause);
  CHECK(result.cause->rank == 1);
  CHECK(result.exit_status == 1);
  CHECK(describe(result).find("rank 1 on node 0 was suspended") == 0);
}

TEST_CASE("a rank that left early is blamed, and the job ends as the rank that missed it") {
  const TemporaryFolder folder;
  const JobSpec job = shell_job(folder, 2,
                                "[ $RANK = 1 ] && { echo no data; exit 0; }; sleep 0.3; "
                                "echo 'RuntimeError: Connection closed by peer'; exit 3");
  const JobResult result = supervise(job, {});
  REQUIRE(result.cause);
  CHECK(result.cause->rank == 1);
  CHECK(result.exit_status == 3);
  CHECK_THAT(describe(result), Catch::StartsWith("rank 1 on node 0 left early: exit status 0") &&
                                   Catch::Contains("its output:\n    | no data\n"));
}

TEST_CASE("SIGUSR1 reaches the ranks as it is, and stops nobody") {
  const TemporaryFolder folder;
  const JobSpec job = shell_job(
      folder, 1, "trap 'echo saved; exit 0' USR1; echo ready; while :; do sleep 0.05; done");
  const JobResult result = supervise(job, signal_on_ready(SIGUSR1));
  CHECK(result.exit_status == 0);
  CHECK(result.stop_signal == 0);
  CHECK_THAT(read_file(folder / "logs/rank-0.log"), Catch::EndsWith("saved\n"));
}

TEST_CASE("two signals at once are one request, unless a person is in a hurry") {
  const int signal = GENERATE(SIGTERM, SIGINT);
  const DefaultAction not_ignored(signal);
  const TemporaryFolder folder;
  const JobSpec job = shell_job(
      folder, 1,
      "trap 'sleep 0.3; echo saved; exit 0' TERM; echo ready; while :; do sleep 0.05; done");
  JobCallbacks callbacks;
  callbacks.output = [&](std::string_view bytes) {
    if (bytes.find("ready") == std::string_view::npos) return;
    ::raise(signal);
    ::raise(signal);
  };
  const JobResult result = supervise(job, callbacks);
  CHECK(result.killed == (signal == SIGINT));
  CHECK(ends_with(read_file(folder / "logs/rank-0.log"), "saved\n") == (signal == SIGTERM));
}
