#include "am/launch/job_result.h"

#include <catch2/catch.hpp>
#include <csignal>

using namespace am::launch;

namespace {

RankExit failed(int64_t rank, int status, int signal, double time) {
  RankExit exit;
  exit.rank = rank;
  exit.exit_status = status;
  exit.signal = signal;
  exit.time = time;
  return exit;
}

RankExit reported(int64_t rank, const std::string& kind, double time) {
  RankExit exit = failed(rank, 1, 0, time + 0.5);
  exit.error = RankError{};
  exit.error->rank = rank;
  exit.error->kind = kind;
  exit.error->message = "message of " + std::to_string(rank);
  exit.error->time = time;
  return exit;
}

std::optional<size_t> cause_of(const std::vector<RankExit>& ranks) { return find_cause(ranks); }

}  // namespace

TEST_CASE("no cause where none failed by itself") {
  CHECK_FALSE(cause_of({failed(0, 0, 0, 1)}));
  RankExit stopped = failed(1, 0, SIGTERM, 1);
  stopped.stopped = true;
  CHECK_FALSE(cause_of({failed(0, 0, 0, 1), stopped}));
}

TEST_CASE("the earliest failure is the cause") {
  CHECK(cause_of({failed(0, 1, 0, 2.0), failed(1, 1, 0, 1.0)}) == 1);
  // By the time of the report, though the process took longer to end.
  CHECK(cause_of({failed(0, 1, 0, 2.0), reported(1, "io", 1.9)}) == 1);
}

TEST_CASE("a lost peer is a consequence, however early") {
  CHECK(cause_of({reported(0, "peer", 1.0), failed(1, 0, SIGSEGV, 3.0)}) == 1);
  CHECK(cause_of({reported(0, "peer", 1.0), reported(1, "runtime", 3.0)}) == 1);
  CHECK(cause_of({reported(0, "peer", 1.0), failed(1, 1, 0, 3.0)}) == 1);
  CHECK(cause_of({reported(0, "peer", 1.0), reported(1, "peer", 0.5)}) == 1);
}

TEST_CASE("a rank that the launcher stopped is never the cause") {
  RankExit stopped = failed(0, 1, 0, 1.0);
  stopped.stopped = true;
  CHECK(cause_of({stopped, failed(1, 3, 0, 5.0)}) == 1);
}

TEST_CASE("how a rank ended, in words") {
  CHECK(end_text(failed(0, 3, 0, 0)) == "exit status 3");
  CHECK(end_text(failed(0, 0, SIGKILL, 0)) == "signal SIGKILL (Killed)");
  CHECK(end_text(failed(0, 0, SIGSEGV, 0)) == "signal SIGSEGV (Segmentation fault)");
}

TEST_CASE("the block that explains a failure") {
  JobResult result;
  CHECK(describe(result).empty());
  result.exit_status = 1;
  result.node_rank = 1;
  result.num_nodes = 2;
  RankExit cause = reported(5, "runtime", 1.0);
  cause.error->message = "loss is nan\nin layer 3";
  cause.error->hint = "lower the learning rate";
  cause.error->step = 12;
  cause.error->last_collective = "all_reduce world #9";
  cause.log = "run/logs/rank-5.log";
  RankExit other = failed(4, 0, SIGTERM, 2.0);
  other.stopped = true;
  RankExit late = reported(6, "peer", 1.1);
  result.ranks = {other, cause, late, failed(7, 0, 0, 3.0)};
  result.cause = 1;
  CHECK(describe(result) ==
        "rank 5 on node 1 failed: exit status 1\n"
        "  loss is nan\n"
        "  in layer 3\n"
        "  help: lower the learning rate\n"
        "  at step 12\n"
        "  log: run/logs/rank-5.log\n"
        "  rank 6 failed after it: exit status 1\n"
        "  rank 4 stopped by the launcher: signal SIGTERM (Terminated)\n"
        "  rank 5 last collective: all_reduce world #9\n");
}

TEST_CASE("a rank without a report shows the end of its log") {
  JobResult result;
  result.exit_status = 3;
  result.ranks = {failed(0, 3, 0, 1.0)};
  result.cause = 0;
  CHECK(describe(result) == "rank 0 on node 0 failed: exit status 3\n  it wrote nothing\n");
  result.ranks[0].tail = {"one", "two"};
  CHECK(describe(result) ==
        "rank 0 on node 0 failed: exit status 3\n"
        "  the last lines of its output:\n    | one\n    | two\n");
}

TEST_CASE("on several machines a lost peer points elsewhere") {
  JobResult result;
  result.exit_status = 1;
  result.num_nodes = 2;
  result.ranks = {reported(0, "peer", 1.0)};
  result.cause = 0;
  CHECK_THAT(describe(result), Catch::Contains("the cause is on another machine"));
}
