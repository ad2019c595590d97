// Tests how launchers react if the launcher of another node vanishes, is suspended, gives up or has
// a different job.
// ctest: waits
#include <catch2/catch.hpp>
#include <csignal>
#include <fstream>
#include <thread>

#include "launch/nodes/two_nodes.h"

using namespace am;
using namespace am::launch;
using namespace launch_test;

TEST_CASE("a node whose launcher dies is named as silent") {
  TwoNodes nodes(kMeet +
                 "[ $GROUP_RANK = 1 ] && exec sleep 60; until [ -e $DIR/dead ]; do sleep 0.01; "
                 "done; echo '{\"message\":\"closed\",\"kind\":\"peer\",\"time\":1.0}' > "
                 "$AM_ERROR_FILE; exit 1");
  nodes.start(0);
  nodes.start(1);
  REQUIRE(soon([&] { return std::filesystem::exists(nodes.folder() / "up-0-3"); }));
  ::kill(nodes.pid(1), SIGKILL);
  nodes.end_of(1);
  std::ofstream(nodes.folder() / "dead") << "1";
  const Node end = nodes.end_of(0);
  CHECK(end.status == 1);
  CHECK_THAT(end.said, Catch::Contains("node 1 did not answer"));
}

TEST_CASE("a node that cannot reach the store any more ends its ranks and says so") {
  TwoNodes nodes(kMeet + "exec sleep 60");
  nodes.start(0);
  nodes.start(1);
  REQUIRE(soon([&] { return std::filesystem::exists(nodes.folder() / "up-0-2"); }));
  ::kill(nodes.pid(0), SIGKILL);
  nodes.end_of(0);
  std::filesystem::rename(nodes.store(), nodes.folder() / "gone");
  const Node end = nodes.end_of(1);
  CHECK(end.status == 1);
  CHECK_THAT(end.said, Catch::StartsWith("the launcher of node 0 cannot be reached any more"));
}

TEST_CASE("a launcher that vanishes without a sound is missed") {
  // The ranks of node 0 have finished, so no collective fails when node 1 is lost.
  TwoNodes nodes(kMeet + "[ $GROUP_RANK = 1 ] && exec sleep 60; exit 0");
  nodes.start(0);
  nodes.start(1);
  REQUIRE(soon([&] { return nodes.is_in_store("attempt-0/report-0"); }));
  ::kill(nodes.pid(1), SIGKILL);
  nodes.end_of(1);
  const Node end = nodes.end_of(0);
  CHECK(end.status == 1);
  CHECK_THAT(end.said,
             Catch::StartsWith("this node's ranks succeeded, but node 1 has given no sign of") &&
                 Catch::Contains("node 1 did not answer"));
}

TEST_CASE("a launcher that is stopped ends the job of the others") {
  TwoNodes nodes(kMeet + "exec sleep 60");
  nodes.start(0);
  nodes.start(1);
  REQUIRE(soon([&] { return std::filesystem::exists(nodes.folder() / "up-0-3"); }));
  ::kill(nodes.pid(1), SIGSTOP);
  const Node end = nodes.end_of(0);
  ::kill(nodes.pid(1), SIGKILL);
  nodes.end_of(1);
  CHECK(end.status == 1);
  CHECK_THAT(end.said, Catch::Contains("node 1 did not answer"));
}

TEST_CASE("a launcher that cannot start its ranks tells the others") {
  const int64_t failing = GENERATE(0, 1);
  TwoNodes nodes("exec sleep 60");
  JobSpec broken = nodes.job(failing);
  broken.argv = {"no-such-program-anywhere"};
  nodes.start(broken);
  nodes.start(1 - failing);
  const Node own = nodes.end_of(failing);
  CHECK(own.status == 2);
  const Node other = nodes.end_of(1 - failing);
  CHECK(other.status == 2);
  CHECK_THAT(other.said, Catch::StartsWith(cat("the launcher of node ", failing, " gave up\n")) &&
                             Catch::Contains("no-such-program-anywhere: no such program in PATH"));
}

TEST_CASE("launchers that were started differently refuse the job") {
  TwoNodes nodes("exec sleep 60");
  JobSpec other = nodes.job(1);
  RestartPolicy policy;
  policy.max_restarts = 1;
  RestartPolicy other_policy = policy;
  std::string words;
  SECTION("ranks") {
    other.nproc = 3;
    words = "node 1 was started with --nproc 3, but node 0 with --nproc 2";
  }
  SECTION("nodes") {
    other.num_nodes = 4;
    words = "node 1 was started with --nnodes 4, but node 0 with --nnodes 2";
  }
  SECTION("restarts") {
    other_policy.max_restarts = 0;
    words = "node 1 was started with --max-restarts 0, but node 0 with --max-restarts 1";
  }
  nodes.start(0, policy);
  nodes.start(other, other_policy);
  const Node second = nodes.end_of(1);
  CHECK(second.status == 2);
  CHECK(second.said == words);
  const Node first = nodes.end_of(0);
  CHECK(first.status == 2);
  CHECK_THAT(first.said,
             Catch::StartsWith("the launcher of node 1 gave up\n") && Catch::Contains(words));
}

TEST_CASE("the user's signal is heard while a launcher waits for the others") {
  TwoNodes nodes(kMeet +
                 "[ $RANK = 3 ] && exit 7; [ $GROUP_RANK = 1 ] && exec sleep 60; "
                 "trap 'until [ -e $DIR/go ]; do sleep 0.01; done; exit 0' TERM; "
                 "while :; do sleep 0.02; done");
  RestartPolicy policy;
  policy.max_restarts = 1;
  JobSpec first = nodes.job(0);
  first.grace_seconds = 30.0;
  nodes.start(first, policy);
  nodes.start(1, policy);
  REQUIRE(soon([&] { return nodes.is_in_store("attempt-0/report-1"); }));
  ::kill(nodes.pid(1), SIGTERM);
  const Node second_end = nodes.end_of(1);
  std::ofstream(nodes.folder() / "go") << "1";
  const Node first_end = nodes.end_of(0);
  for (const Node& end : {first_end, second_end}) {
    CHECK(end.status == 7);
    CHECK_THAT(end.said, Catch::StartsWith("rank 3 on node 1 failed: exit status 7\n") &&
                             !Catch::Contains("restart 1") && !Catch::Contains("did not answer"));
  }
  // Node 1 also reports in the next attempt, in case node 0 has already decided to restart.
  CHECK(nodes.is_in_store("attempt-1/report-1"));
  CHECK(nodes.is_in_store("attempt-1/abort"));
}

TEST_CASE("a launcher that waits for its ranks sleeps") {
  TwoNodes nodes(kMeet +
                 "[ $RANK = 3 ] && exit 7; trap 'touch $DIR/saving-$RANK; until [ -e $DIR/go ]; do "
                 "sleep 0.1; done; exit 0' TERM; while :; do sleep 0.1; done");
  JobSpec first = nodes.job(0);
  first.grace_seconds = 30.0;
  nodes.start(first);
  nodes.start(1);
  REQUIRE(soon([&] { return std::filesystem::exists(nodes.folder() / "saving-0"); }));
  // A launcher that sleeps neither runs nor waits for a processor: its state is S.
  int asleep = 0;
  constexpr int kLooks = 100;
  for (int look = 0; look < kLooks; ++look) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    asleep += state_of(nodes.pid(0)) == "S" ? 1 : 0;
  }
  std::ofstream(nodes.folder() / "go") << "1";
  CHECK(asleep > kLooks / 2);
  nodes.end_of(1);
  CHECK(nodes.end_of(0).status == 7);
}
