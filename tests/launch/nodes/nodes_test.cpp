// Tests in which the ranks of several nodes fail and restart together.
// ctest: waits
#include <catch2/catch.hpp>
#include <csignal>

#include "launch/nodes/two_nodes.h"
#include "launch/supervise/rank_exits.h"

using namespace am;
using namespace am::launch;
using namespace launch_test;

TEST_CASE("a report reads back from its text") {
  NodeReport report;
  report.ended_by_user = true;
  report.ranks = {witness(0, {3}, 1.5), stopped(1, SIGKILL, 2.0)};
  report.ranks[0].node = 2;
  report.ranks[0].log = "/run/logs/rank-0.log";
  report.ranks[0].error->step = 4;
  report.ranks[1].tail = {std::string(20000, 'x'), "the last line"};
  report.launcher_error = RankError{.message = "no program", .hint = "install it"};
  const auto read = node_report_from(to_text(report));
  REQUIRE(read);
  CHECK(read->ended_by_user);
  REQUIRE(read->launcher_error);
  CHECK(read->launcher_error->message == "no program");
  CHECK(read->launcher_error->hint == "install it");
  REQUIRE(read->ranks.size() == 2);
  CHECK(read->ranks[0].node == 2);
  CHECK(read->ranks[0].log == "/run/logs/rank-0.log");
  CHECK(read->ranks[0].time == 2.0);
  REQUIRE(read->ranks[0].error);
  CHECK(read->ranks[0].error->missing == std::vector<int64_t>{3});
  CHECK(read->ranks[0].error->step == 4);
  CHECK(read->ranks[1].stopped);
  CHECK(read->ranks[1].signal == SIGKILL);
  CHECK(read->ranks[1].tail == std::vector<std::string>{"the last line"});
  for (const char* text : {"", "{}", "[1]", R"({"ended_by_user": true, "ranks": [3]})"}) {
    CHECK_FALSE(node_report_from(text));
  }
}

TEST_CASE("attempts do not hear each other") {
  const TemporaryFolder folder;
  FolderStore store(folder.path());
  NodeRendezvous first(store, "none", 0, 0, 2);
  NodeRendezvous second(store, "none", 1, 0, 2);
  CHECK_FALSE(first.aborting_node());
  NodeRendezvous(store, "none", 0, 1, 2).raise_abort();
  CHECK(first.aborting_node() == 1);
  CHECK_FALSE(second.aborting_node());
  CHECK_FALSE(first.terms());
  first.publish_terms({3, 2, 1});
  CHECK(first.terms() == JobTerms{3, 2, 1});
  CHECK_FALSE(first.decision());
  first.decide({true, 200});
  CHECK(first.decision()->restart);
  CHECK(first.decision()->step == 200);
  second.decide({false, std::nullopt});
  CHECK_FALSE(second.decision()->restart);
}

TEST_CASE("what no launcher writes in the store is refused") {
  const TemporaryFolder folder;
  FolderStore files(folder.path());
  NodeRendezvous rendezvous(files, "none", 0, 0, 2);
  const std::string prefix = "automesh/launch/none/attempt-0/";
  for (const char* text : {"", "70000", "0", "-1", "29500; rm", "x"}) {
    files.set(prefix + "port", text);
    CHECK_THROWS_AS(rendezvous.port(), Error);
  }
  for (const char* text : {"2", "-1", "one"}) {
    files.set(prefix + "abort", text);
    CHECK_THROWS_AS(rendezvous.aborting_node(), Error);
  }
  for (const char* text : {"", "step", "step ../x", "step -3", "step 9999999999999999999", "go"}) {
    files.set(prefix + "next", text);
    CHECK_THROWS_AS(rendezvous.decision(), Error);
  }
  files.set(prefix + "terms", "2 x 1");
  CHECK_THROWS_AS(rendezvous.terms(), Error);
}

TEST_CASE("nodes that end well wait for each other and are well") {
  TwoNodes nodes(kMeet + "[ $GROUP_RANK = 1 ] && sleep 0.3; echo $MASTER_PORT > $DIR/port-$RANK");
  nodes.start(0);
  nodes.start(1);
  CHECK(nodes.end_of(0).status == 0);
  CHECK(nodes.end_of(1).status == 0);
  // All ranks use the port that node 0 chose.
  CHECK(read_file(nodes.folder() / "port-0") == read_file(nodes.folder() / "port-3"));
}

TEST_CASE("one node's failure ends all nodes, and all name it") {
  TwoNodes nodes(kMeet + "[ $RANK = 3 ] && { echo the reason; exit 7; }; exec sleep 60");
  nodes.start(0);
  nodes.start(1);
  for (const int64_t node : {0, 1}) {
    const Node end = nodes.end_of(node);
    CHECK(end.status == 7);
    CHECK_THAT(end.said,
               Catch::StartsWith("rank 3 on node 1 failed: exit status 7\n") &&
                   Catch::Contains("    | the reason\n") &&
                   Catch::Contains("ranks 0-2 stopped by the launcher") &&
                   Catch::Contains(node == 0 ? "rank-3.log (on node 1)\n" : "rank-3.log\n"));
  }
}

TEST_CASE("a rank that hangs on another node is found there") {
  TwoNodes nodes(
      kMeet +
      "[ $RANK = 2 ] && { echo my last words; kill -STOP $$; }; [ $RANK = 0 ] || exec sleep 60; "
      "echo '{\"message\":\"timed out\",\"kind\":\"hang\",\"missing\":[2],"
      "\"last_collective\":\"all_reduce dp #9\",\"time\":1.0}' > $AM_ERROR_FILE; exit 1");
  nodes.start(0);
  nodes.start(1);
  for (const int64_t node : {0, 1}) {
    const Node end = nodes.end_of(node);
    CHECK(end.status == 1);
    CHECK_THAT(end.said,
               Catch::StartsWith("rank 2 on node 1 hangs: it did not arrive at all_reduce dp #9") &&
                   Catch::Contains("rank 0 waited for it: timed out\n") &&
                   Catch::Contains("    | my last words\n"));
  }
}

TEST_CASE("a rank that is deaf on another node does not keep the job from starting again") {
  TwoNodes nodes(
      "if [ $TORCHELASTIC_RESTART_COUNT = 0 ]; then trap '' TERM; " + kMeet +
      "[ $RANK = 0 ] && exit 7; [ $GROUP_RANK = 0 ] && exit 0; while :; do sleep 0.05; done; fi");
  RestartPolicy policy;
  policy.max_restarts = 1;
  nodes.start(0, policy);
  nodes.start(1, policy);
  for (const int64_t node : {0, 1}) {
    const Node end = nodes.end_of(node);
    CHECK(end.status == 0);
    CHECK_THAT(end.said, Catch::StartsWith("rank 0 on node 0 failed: exit status 7\n") &&
                             Catch::EndsWith("restart 1 from -1\n"));
  }
}

TEST_CASE("an attempt in which a node takes no part ends") {
  TwoNodes nodes(kMeet + "[ $TORCHELASTIC_RESTART_COUNT$RANK = 03 ] && exit 7; exec sleep 60");
  RestartPolicy policy;
  policy.max_restarts = 5;
  // Node 0 calls this callback while it decides about a restart. The callback simulates that the
  // user ends node 1: it suspends node 1's launcher, and writes node 1's report to the store.
  policy.newest_step = [&]() -> std::optional<int64_t> {
    ::kill(nodes.pid(1), SIGSTOP);
    FolderStore store(nodes.store());
    NodeRendezvous next(store, "none", 1, 1, 2);
    NodeReport report;
    report.ended_by_user = true;
    next.publish(report);
    next.raise_abort();
    return std::nullopt;
  };
  nodes.start(1, policy);  // started first, so that the process of node 0 knows node 1's pid
  nodes.start(0, policy);
  const Node end = nodes.end_of(0);
  CHECK(end.status == 1);
  CHECK_THAT(end.said, Catch::Contains("restart 1 from -1\nthe job was stopped before its ranks"));
  ::kill(nodes.pid(1), SIGCONT);
  nodes.end_of(1);
}

TEST_CASE("all nodes move to the same attempt, from node 0's checkpoint") {
  TwoNodes nodes(kMeet +
                 "[ $TORCHELASTIC_RESTART_COUNT$RANK = 03 ] && exit 7; "
                 "[ $TORCHELASTIC_RESTART_COUNT = 0 ] && exec sleep 60; exit 0");
  for (const int64_t node : {0, 1}) {
    RestartPolicy policy;
    policy.max_restarts = 2;
    policy.newest_step = [node]() -> std::optional<int64_t> { return 100 + node; };
    nodes.start(node, policy);
  }
  for (const int64_t node : {0, 1}) {
    const Node end = nodes.end_of(node);
    CHECK(end.status == 0);
    CHECK_THAT(end.said, Catch::StartsWith("rank 3 on node 1 failed: exit status 7\n") &&
                             Catch::EndsWith("restart 1 from 100\n"));
  }
}
