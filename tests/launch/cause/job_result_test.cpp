#include "am/launch/cause/job_result.h"

#include <catch2/catch.hpp>
#include <csignal>

#include "launch/supervise/rank_exits.h"

using namespace am::launch;
using namespace launch_test;

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
  cause.node = 1;
  cause.error->message = "loss is nan\nin layer 3";
  cause.error->hint = "lower the learning rate";
  cause.error->step = 12;
  cause.error->last_collective = "all_reduce world #9";
  cause.log = "run/logs/rank-5.log";
  RankExit other = failed(4, 0, SIGTERM, 2.0);
  other.stopped = true;
  RankExit late = reported(6, "peer", 1.1);
  late.error->last_collective = "all_gather dp_shard #7";
  result.ranks = {other, cause, late, failed(7, 0, 0, 3.0)};
  result.cause = FirstCause{5, 1, 1, std::nullopt};
  CHECK(describe(result) ==
        "rank 5 on node 1 failed at step 12: exit status 1\n"
        "  error: loss is nan\n"
        "         in layer 3\n"
        "  help: lower the learning rate\n"
        "  last collective: all_reduce world #9\n"
        "  log: run/logs/rank-5.log\n"
        "the others:\n"
        "  rank 6 also failed: exit status 1\n"
        "  rank 4 stopped by the launcher: signal SIGTERM (Terminated)\n"
        "  rank 6 last collective: all_gather dp_shard #7\n");
  const am::Json json = cause_json(result);
  CHECK(json["rank"] == 5);
  CHECK(json["node"] == 1);
  CHECK(json["step"] == 12);
  CHECK(json["hangs"] == false);
  CHECK(json["exit_status"] == 1);
  CHECK(json["signal"].is_null());
  CHECK(json["last_collective"] == "all_reduce world #9");
}

TEST_CASE("a rank without a report shows the end of its log") {
  JobResult result;
  result.exit_status = 3;
  result.ranks = {failed(0, 3, 0, 1.0)};
  result.cause = FirstCause{0, 0, 0, std::nullopt};
  CHECK(describe(result) ==
        "rank 0 on node 0 failed: exit status 3\n  there is no output to show\n");
  result.ranks[0].tail = {"one", "two"};
  CHECK(describe(result) ==
        "rank 0 on node 0 failed: exit status 3\n"
        "  the last lines of its output:\n    | one\n    | two\n");
}

TEST_CASE("a rank that hangs is named with the witness's words and its own log") {
  JobResult result;
  result.exit_status = 1;
  RankExit witness = reported(0, "hang", 1.0);
  witness.error->message = "timed out after 3 s";
  witness.error->step = 7;
  witness.error->last_collective = "all_reduce dp_shard #1042";
  witness.error->missing = {1, 2};
  RankExit stuck = failed(1, 0, SIGKILL, 9.0);
  stuck.stopped = true;
  stuck.log = "run/logs/rank-1.log";
  stuck.tail = {"step 6"};
  // The launcher asked the missing rank to stop, and the rank then lost its peers. This later error
  // does not explain the hang.
  stuck.error = RankError{.message = "closed", .kind = "peer", .last_collective = "other #1"};
  result.ranks = {witness, stuck};
  result.cause = FirstCause{1, 0, 1, 0};
  CHECK(describe(result) ==
        "rank 1 on node 0 hangs at step 7: it did not arrive at all_reduce dp_shard #1042\n"
        "  rank 2 did not arrive there either\n"
        "  rank 0 waited for it: timed out after 3 s\n"
        "  log: run/logs/rank-1.log\n"
        "  the last lines of its output:\n    | step 6\n"
        "the others:\n"
        "  rank 0 also failed: exit status 1\n"
        "  rank 0 last collective: all_reduce dp_shard #1042\n");
  CHECK(cause_json(result)["hangs"] == true);
  CHECK(cause_json(result)["signal"].is_null());
  CHECK(cause_json(result)["message"] == "timed out after 3 s");
  // The missing rank waited too, but in another collective.
  result.ranks[1] = reported(1, "hang", 1.1);
  result.ranks[1].error->last_collective = "all_gather tp #3";
  CHECK_THAT(describe(result),
             Catch::Contains("it waited in another collective: all_gather tp #3"));
  // The missing rank had ended before the collective.
  result.ranks[1] = failed(1, 0, 0, 0.5);
  CHECK_THAT(describe(result), Catch::Contains("it had ended: exit status 0"));
  // The missing rank is on a node that did not report.
  result.ranks.pop_back();
  result.cause = FirstCause{9, 1, std::nullopt, 0};
  CHECK_THAT(describe(result), Catch::StartsWith("rank 9 on node 1 hangs"));
}

TEST_CASE("where no rank failed the block says only what is known") {
  JobResult result;
  result.exit_status = 1;
  result.num_nodes = 2;
  CHECK(describe(result) == "the job was stopped before its ranks were started\n");
  result.ranks = {failed(0, 0, 0, 1.0)};
  result.silent_nodes = {1};
  CHECK(describe(result) ==
        "this node's ranks succeeded, but node 1 has given no sign of life: its launcher or its "
        "machine is gone\n"
        "the others:\n"
        "  node 1 did not answer: its launcher or its machine is gone\n");
  CHECK(cause_json(result)["node"] == 1);
  CHECK(cause_json(result)["rank"].is_null());
  CHECK_THAT(cause_json(result)["message"].get<std::string>(),
             Catch::StartsWith("node 1 has given no sign of life"));
  // The launcher itself killed ranks that waited for the lost machine. The description must not say
  // that the job was killed.
  JobResult stopped_here = result;
  stopped_here.ranks = {stopped(0, SIGKILL, 1.0)};
  stopped_here.killed = true;
  CHECK_THAT(describe(stopped_here), Catch::StartsWith("node 1 has given no sign of life") &&
                                         Catch::Contains(", so node 0 stopped its ranks\n"));
  stopped_here.killed_by_user = true;
  CHECK_THAT(describe(stopped_here), Catch::StartsWith("the job was killed"));
  result.silent_nodes.clear();
  CHECK(cause_json(result).is_null());
  result.wait_cut = true;
  CHECK(describe(result) ==
        "this node's ranks succeeded, but the user did not wait for the other nodes\n");
  result.wait_cut = false;
  result.store_error = "connection closed";
  CHECK(describe(result) ==
        "this node's ranks succeeded, but the launcher of node 0 cannot be reached any more\n"
        "  error: connection closed\n");
  result.store_error.clear();
  result.ranks = {stopped(0, SIGTERM, 1.0)};
  CHECK_THAT(describe(result),
             Catch::StartsWith("the job was stopped before its ranks had finished\n"));
}

TEST_CASE("a launcher that gave up is told with its reason") {
  JobResult result;
  result.exit_status = 2;
  result.num_nodes = 2;
  result.ranks = {stopped(0, SIGTERM, 1.0)};
  result.failed_launchers = {{1, RankError{.message = "no such program", .hint = "install it"}}};
  const std::string block =
      "the launcher of node 1 gave up\n"
      "  error: no such program\n"
      "  help: install it\n"
      "the others:\n";
  CHECK_THAT(describe(result), Catch::StartsWith(block));
  // The end of a launcher explains more than a closed connection, so the report begins with the
  // launcher.
  result.ranks = {reported(0, "peer", 1.0)};
  result.cause = FirstCause{0, 0, 0, std::nullopt};
  CHECK_THAT(describe(result), Catch::StartsWith(block));
  // A rank that failed by itself is still reported as the cause.
  result.ranks = {failed(0, 3, 0, 1.0)};
  CHECK_THAT(describe(result),
             Catch::StartsWith("rank 0 on node 0 failed: exit status 3\n") &&
                 Catch::Contains("  the launcher of node 1 gave up: no such program\n"));
}

TEST_CASE("on several machines a lost peer points elsewhere") {
  JobResult result;
  result.exit_status = 1;
  result.num_nodes = 2;
  result.ranks = {reported(0, "peer", 1.0)};
  result.cause = FirstCause{0, 0, 0, std::nullopt};
  result.silent_nodes = {1};
  CHECK_THAT(describe(result), Catch::Contains("the cause is on a machine that reported nothing") &&
                                   Catch::Contains("  node 1 did not answer"));
  // The death of the launcher that serves the store explains more than a closed connection, so the
  // report begins with this launcher.
  result.silent_nodes.clear();
  result.node_rank = 1;
  result.store_error = "connection refused";
  CHECK_THAT(describe(result),
             Catch::StartsWith("the launcher of node 0 cannot be reached any more") &&
                 Catch::Contains("  error: connection refused\n"));
}

TEST_CASE("a suspended rank and one that left early are told as what they are") {
  JobResult result;
  result.exit_status = 1;
  RankExit suspended = stopped(1, SIGKILL, 8.0);
  suspended.suspended = true;
  result.ranks = {failed(0, 1, 0, 1.0), suspended};
  result.cause = FirstCause{1, 0, 1, std::nullopt};
  CHECK(describe(result) ==
        "rank 1 on node 0 was suspended, by SIGSTOP, a terminal or a debugger\n"
        "  there is no output to show\n"
        "the others:\n"
        "  rank 0 also failed: exit status 1\n");
  CHECK(cause_json(result)["hangs"] == true);
  CHECK(cause_json(result)["signal"].is_null());

  result.ranks[1] = failed(1, 0, 0, 0.5);
  CHECK(describe(result).find("rank 1 on node 0 left early: exit status 0, while the others went "
                              "on\n") == 0);
}

TEST_CASE("the block tells of ranks that had ended well before") {
  JobResult result;
  result.exit_status = 3;
  result.ranks = {failed(0, 3, 0, 5.0), failed(1, 0, 0, 4.5), failed(2, 0, 0, 6.0)};
  result.cause = FirstCause{0, 0, 0, std::nullopt};
  CHECK(describe(result).find("  rank 1 had ended with exit status 0, 500 ms earlier\n") !=
        std::string::npos);
}

TEST_CASE("a death without a word comes with what it most often means") {
  JobResult result;
  result.exit_status = 1;
  result.cause = FirstCause{0, 0, 0, std::nullopt};
  result.ranks = {failed(0, 0, SIGKILL, 1.0)};
  CHECK(describe(result).find("  help: the signal may come from the kernel") != std::string::npos);
  result.ranks = {failed(0, 0, SIGBUS, 1.0)};
  CHECK(describe(result).find("  help: a mapped file of data or weights became shorter") !=
        std::string::npos);
}

TEST_CASE("a death without a word is placed by what the rank said before") {
  JobResult result;
  result.exit_status = 1;
  result.cause = FirstCause{0, 0, 0, std::nullopt};
  RankExit killed = failed(0, 0, SIGSEGV, 10.0);
  killed.last_word = LastWord{12, "at step 12, in no collective", 9.5};
  result.ranks = {killed};
  CHECK(describe(result) ==
        "rank 0 on node 0 failed: signal SIGSEGV (Segmentation fault)\n"
        "  last state, 500 ms before its end: at step 12, in no collective\n"
        "  there is no output to show\n");
  CHECK(cause_json(result)["step"] == 12);
}

TEST_CASE("signals that the launcher does not send are not called its own") {
  JobResult result;
  result.exit_status = 1;
  result.ranks = {failed(0, 0, SIGBUS, 1.0), stopped(1, SIGBUS, 1.1), stopped(2, SIGTERM, 1.2)};
  result.cause = FirstCause{0, 0, 0, std::nullopt};
  const std::string text = describe(result);
  CHECK(text.find("rank 1 died while the launcher stopped it: signal SIGBUS") != std::string::npos);
  CHECK(text.find("rank 2 stopped by the launcher: signal SIGTERM") != std::string::npos);
  result.cause.reset();
  result.ranks = {stopped(0, SIGKILL, 1.0)};
  CHECK(describe(result).find("the ranks:\n  rank 0 stopped by the launcher") != std::string::npos);
}
