// Several launchers that share a board: each in a process of its own, as on several machines.
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <catch2/catch.hpp>
#include <csignal>
#include <fstream>

#include "am/base/error.h"
#include "am/base/file.h"
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
    return job;
  }

  pid_t pid(int64_t node) const { return nodes_[static_cast<size_t>(node)].pid; }

  // The launcher of one node.
  void start(int64_t node, RestartPolicy policy = {}) {
    Node& started = nodes_[static_cast<size_t>(node)];
    started.pid = ::fork();
    if (started.pid != 0) return;
    int status = 99;
    try {
      FolderBoard board(this->board());
      JobSpec spec = job(node);
      spec.board = &board;
      std::string said;
      policy.announce = [&](const JobResult& failed, int64_t restart, std::optional<int64_t> step) {
        said += describe(failed) + cat("restart ", restart, " from ", step.value_or(-1), "\n");
      };
      const JobResult result = supervise_with_restarts(spec, policy, {});
      write_file_atomically(folder_ / cat("said-", node), said + describe(result));
      status = result.exit_status;
    } catch (...) {
    }
    ::_exit(status);
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
  const auto read = node_report_from(to_text(report));
  REQUIRE(read);
  CHECK(read->ended_by_user);
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
  CHECK_FALSE(first.bell_rung());
  first.ring_bell();
  CHECK(first.bell_rung());
  CHECK_FALSE(second.bell_rung());
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
