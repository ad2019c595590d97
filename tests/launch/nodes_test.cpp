// Several launchers that share a board: each in a process of its own, as on several machines.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <csignal>
#include <fstream>

#include "am/base/error.h"
#include "am/base/file.h"
#include "am/launch/background_board.h"
#include "am/launch/node_board.h"
#include "am/launch/restart.h"
#include "launch/job_support.h"
#include "launch/rank_exits.h"

using namespace am;
using namespace am::launch;
using namespace launch_test;

namespace {

// A folder with a file for each key: processes of one machine can share it. Removing the folder is
// the death of the launcher that holds the board.
class FolderBoard : public Board {
 public:
  explicit FolderBoard(std::filesystem::path folder) : folder_(std::move(folder)) {}

  void set(const std::string& key, const std::string& value) override {
    check();
    write_file_atomically(file(key), value);
  }
  std::optional<std::string> get(const std::string& key) override {
    check();
    if (!std::filesystem::exists(file(key))) return std::nullopt;
    return read_file(file(key));
  }

 private:
  void check() const {
    if (!std::filesystem::exists(folder_)) throw Error(ErrorKind::kPeer, "the board is gone");
  }
  std::filesystem::path file(std::string key) const {
    for (char& c : key) c = c == '/' ? '_' : c;
    return folder_ / key;
  }

  std::filesystem::path folder_;
};

struct Node {
  pid_t pid = 0;
  int status = -1;
  std::string said;  // what describe() told, and each restart
};

// Two nodes of two ranks each run `script`; rank 0 and 1 are node 0's.
class TwoNodes {
 public:
  explicit TwoNodes(std::string script) : script_(std::move(script)) {
    std::filesystem::create_directory(board());
  }

  std::filesystem::path board() const { return folder_ / "board"; }
  const TemporaryFolder& folder() const { return folder_; }

  JobSpec job(int64_t node) const {
    JobSpec job = shell_job(folder_, 2, script_);
    job.log_folder = folder_ / cat("logs-", node);
    job.num_nodes = 2;
    job.node_rank = node;
    job.settle_seconds = 1.0;
    job.grace_seconds = 2.0;
    job.silence_seconds = 4.0;
    return job;
  }

  pid_t pid(int64_t node) const { return nodes_[static_cast<size_t>(node)].pid; }

  // What a launcher has put on the board: "attempt-0/report-1".
  bool is_on_board(std::string key) const {
    std::replace(key.begin(), key.end(), '/', '_');
    return std::filesystem::exists(board() / cat("automesh_launch_none_", key));
  }

  // The launcher of one node.
  void start(int64_t node, RestartPolicy policy = {}) { start(job(node), std::move(policy)); }
  void start(const JobSpec& spec, RestartPolicy policy = {}) {
    Node& started = nodes_[static_cast<size_t>(spec.node_rank)];
    started.pid = ::fork();
    if (started.pid == 0) ::_exit(launch(spec, std::move(policy)));
  }

  Node end_of(int64_t node) {
    Node& ended = nodes_[static_cast<size_t>(node)];
    const auto over = [&] { return ::waitpid(ended.pid, &ended.status, WNOHANG) == ended.pid; };
    if (!soon(over)) {
      ::kill(ended.pid, SIGKILL);
      ::waitpid(ended.pid, nullptr, 0);
      FAIL("the launcher of node " << node << " does not end");
    }
    ended.status = WIFEXITED(ended.status) ? WEXITSTATUS(ended.status) : -1;
    if (std::filesystem::exists(folder_ / cat("said-", node))) {
      ended.said = read_file(folder_ / cat("said-", node));
    }
    return ended;
  }

 private:
  int launch(JobSpec spec, RestartPolicy policy) const {
    ::signal(SIGTERM, SIG_DFL);
    std::string said;
    policy.announce = [&](const JobResult& failed, int64_t restart, std::optional<int64_t> step) {
      said += describe(failed) + cat("restart ", restart, " from ", step.value_or(-1), "\n");
    };
    int status = 0;
    try {
      BackgroundBoard board(std::make_shared<FolderBoard>(this->board()),
                            beat_key(spec.run_id, spec.node_rank));
      spec.board = &board;
      const JobResult result = supervise_with_restarts(spec, policy, {});
      said += describe(result);
      status = result.exit_status;
    } catch (const Error& error) {
      said += error.what();
      status = error.exit_status();
    }
    write_file_atomically(folder_ / cat("said-", spec.node_rank), said);
    return status;
  }

  TemporaryFolder folder_;
  std::string script_;
  std::array<Node, 2> nodes_;
};

// All four ranks wait for each other: none ends before all are there.
const std::string kMeet =
    "touch $DIR/up-$TORCHELASTIC_RESTART_COUNT-$RANK; "
    "for r in 0 1 2 3; do until [ -e $DIR/up-$TORCHELASTIC_RESTART_COUNT-$r ]; do sleep 0.01; "
    "done; "
    "done; ";

}  // namespace

TEST_CASE("a report reads back from its text") {
  NodeReport report;
  report.ended_by_user = true;
  report.ranks = {witness(0, {3}, 1.5), stopped(1, SIGKILL, 2.0)};
  report.ranks[0].node = 2;
  report.ranks[0].log = "/run/logs/rank-0.log";
  report.ranks[0].error->step = 4;
  report.ranks[1].tail = {std::string(20000, 'x'), "the last line"};
  report.launcher_error = RankError{.message = "no program", .hint = "install it"};
  report.silent = true;
  const auto read = node_report_from(to_text(report));
  REQUIRE(read);
  CHECK(read->ended_by_user);
  CHECK(read->silent);
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
  FolderBoard board(folder.path());
  NodeBoard first(board, "none", 0, 0, 2);
  NodeBoard second(board, "none", 1, 0, 2);
  CHECK_FALSE(first.bell());
  NodeBoard(board, "none", 0, 1, 2).ring_bell();
  CHECK(first.bell() == 1);
  CHECK_FALSE(second.bell());
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

TEST_CASE("nodes that end well wait for each other and are well") {
  TwoNodes nodes(kMeet + "[ $GROUP_RANK = 1 ] && sleep 0.3; echo $MASTER_PORT > $DIR/port-$RANK");
  nodes.start(0);
  nodes.start(1);
  CHECK(nodes.end_of(0).status == 0);
  CHECK(nodes.end_of(1).status == 0);
  // Node 0 chose the port for all.
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

TEST_CASE("a node that cannot reach the board any more ends its ranks and says so") {
  TwoNodes nodes(kMeet + "exec sleep 60");
  nodes.start(0);
  nodes.start(1);
  REQUIRE(soon([&] { return std::filesystem::exists(nodes.folder() / "up-0-2"); }));
  ::kill(nodes.pid(0), SIGKILL);
  nodes.end_of(0);
  std::filesystem::rename(nodes.board(), nodes.folder() / "gone");
  const Node end = nodes.end_of(1);
  CHECK(end.status == 1);
  CHECK_THAT(end.said, Catch::StartsWith("the launcher of node 0 cannot be reached any more"));
}

TEST_CASE("a launcher that vanishes without a sound is missed") {
  // Its ranks were not needed any more: nothing fails where it is waited for.
  TwoNodes nodes(kMeet + "[ $GROUP_RANK = 1 ] && exec sleep 60; exit 0");
  nodes.start(0);
  nodes.start(1);
  REQUIRE(soon([&] { return nodes.is_on_board("attempt-0/report-0"); }));
  ::kill(nodes.pid(1), SIGKILL);
  nodes.end_of(1);
  const Node end = nodes.end_of(0);
  CHECK(end.status == 1);
  CHECK_THAT(end.said, Catch::StartsWith("all ranks here ended well, but not those of all other") &&
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
    words = "node 1 was started with --nproc 3, node 0 with --nproc 2";
  }
  SECTION("nodes") {
    other.num_nodes = 4;
    words = "node 1 was started with --nnodes 4, node 0 with --nnodes 2";
  }
  SECTION("restarts") {
    other_policy.max_restarts = 0;
    words = "node 1 was started with --max-restarts 0, node 0 with --max-restarts 1";
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
  REQUIRE(soon([&] { return nodes.is_on_board("attempt-0/report-1"); }));
  ::kill(nodes.pid(1), SIGTERM);
  const Node second_end = nodes.end_of(1);
  std::ofstream(nodes.folder() / "go") << "1";
  const Node first_end = nodes.end_of(0);
  for (const Node& end : {first_end, second_end}) {
    CHECK(end.status == 7);
    CHECK_THAT(end.said, Catch::StartsWith("rank 3 on node 1 failed: exit status 7\n") &&
                             !Catch::Contains("restart 1") && !Catch::Contains("did not answer"));
  }
  // Had node 0 decided already, it would hear it in the next attempt.
  CHECK(nodes.is_on_board("attempt-1/report-1"));
  CHECK(nodes.is_on_board("attempt-1/bell"));
}

TEST_CASE("an attempt in which a node takes no part ends") {
  TwoNodes nodes(kMeet + "[ $TORCHELASTIC_RESTART_COUNT$RANK = 03 ] && exit 7; exec sleep 60");
  RestartPolicy policy;
  policy.max_restarts = 5;
  // While node 0 decides, the user ends node 1.
  policy.newest_step = [&]() -> std::optional<int64_t> {
    FolderBoard board(nodes.board());
    NodeBoard next(board, "none", 1, 1, 2);
    NodeReport report;
    report.ended_by_user = true;
    next.publish(report);
    next.ring_bell();
    return std::nullopt;
  };
  nodes.start(0, policy);
  nodes.start(1, policy);
  const Node end = nodes.end_of(0);
  CHECK(end.status == 1);
  CHECK_THAT(end.said, Catch::Contains("restart 1 from -1\nthe job was stopped before its ranks"));
  nodes.end_of(1);
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
  // Not on the processor, nor waiting for it.
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
