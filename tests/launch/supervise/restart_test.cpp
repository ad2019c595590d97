#include "am/launch/supervise/restart.h"

#include <catch2/catch.hpp>
#include <csignal>
#include <fstream>
#include <functional>
#include <map>

#include "am/base/file.h"
#include "am/launch/nodes/node_report.h"
#include "launch/supervise/default_action.h"
#include "launch/supervise/job_support.h"
#include "launch/supervise/rank_exits.h"

using namespace am;
using namespace am::launch;
using namespace launch_test;

namespace {

JobResult failure(RankExit end) {
  JobResult result;
  result.exit_status = end.signal != 0 ? 1 : end.exit_status;
  result.cause = FirstCause{end.rank, 0, 0, std::nullopt};
  result.ranks = {std::move(end)};
  return result;
}

// A store in memory that counts the get() calls of each key. Keys are shortened to their last part,
// without the run and the attempt.
class ScriptedStore : public KeyValueStore {
 public:
  void set(const std::string& key, const std::string& value) override { values[name(key)] = value; }
  std::optional<std::string> get(const std::string& key) override {
    ++asked[name(key)];
    if (on_get) on_get(name(key));
    const auto found = values.find(name(key));
    return found == values.end() ? std::nullopt : std::optional(found->second);
  }

  std::map<std::string, std::string> values;
  std::map<std::string, int> asked;
  std::function<void(const std::string& key)> on_get;

 private:
  static std::string name(const std::string& key) { return key.substr(key.rfind('/') + 1); }
};

RankExit user_error(const std::string& kind, int status) {
  RankExit end = reported(0, kind, 1.0);
  end.exit_status = status;
  return end;
}

}  // namespace

TEST_CASE("what another attempt may mend") {
  CHECK(worth_restarting(failure(failed(0, 1, 0, 1.0)), false));
  CHECK(worth_restarting(failure(failed(0, 0, SIGSEGV, 1.0)), false));
  CHECK(worth_restarting(failure(reported(0, "runtime", 1.0)), false));
  RankExit late = user_error("io", 2);
  late.error->step = 12;  // for example a disk failure during training
  CHECK(worth_restarting(failure(late), false));
}

TEST_CASE("what another attempt cannot mend") {
  CHECK_FALSE(worth_restarting(JobResult{}, true));
  for (const char* kind : {"usage", "plan", "format", "io", "numeric"}) {
    const bool one = std::string(kind) == "plan" || std::string(kind) == "numeric";
    const JobResult result = failure(user_error(kind, one ? 1 : 2));
    CHECK_FALSE(worth_restarting(result, false));
    CHECK(worth_restarting(result, true));
  }
  CHECK_FALSE(worth_restarting(failure(failed(0, 2, 0, 1.0)), false));
  JobResult stopped_by_user = failure(failed(0, 1, 0, 1.0));
  stopped_by_user.stop_signal = SIGTERM;
  CHECK_FALSE(worth_restarting(stopped_by_user, true));
  JobResult machine_gone = failure(failed(0, 1, 0, 1.0));
  machine_gone.silent_nodes = {1};
  CHECK_FALSE(worth_restarting(machine_gone, true));
  JobResult launcher_failed = failure(failed(0, 1, 0, 1.0));
  launcher_failed.failed_launchers = {{1, RankError{}}};
  CHECK_FALSE(worth_restarting(launcher_failed, true));
}

TEST_CASE("a job that fails starts again, from the newest checkpoint") {
  const TemporaryFolder folder;
  // Every attempt fails. The second attempt first writes a checkpoint, and the third attempt
  // resumes from this checkpoint.
  JobSpec job =
      shell_job(folder, 2,
                "echo attempt $TORCHELASTIC_RESTART_COUNT of $TORCHELASTIC_MAX_RESTARTS $FROM; "
                "[ $RANK = 0 ] && exec sleep 60; [ $TORCHELASTIC_RESTART_COUNT = 1 ] && "
                "touch $DIR/step; exit 3");
  job.environment.emplace_back("FROM", "start");
  RestartPolicy policy;
  policy.max_restarts = 2;
  policy.newest_step = [&]() -> std::optional<int64_t> {
    if (std::filesystem::exists(folder / "step")) return 7;
    return std::nullopt;
  };
  policy.resume = [](JobSpec& spec, std::optional<int64_t> step) {
    if (step) spec.environment.emplace_back("FROM", "step");
  };
  std::vector<std::string> said;
  policy.announce = [&](const JobResult& failed, int64_t restart, std::optional<int64_t> step) {
    said.push_back(
        cat("rank ", failed.cause->rank, " restart ", restart, " step ", step.value_or(0)));
  };
  const JobResult result = supervise_with_restarts(job, policy, {});
  CHECK(result.exit_status == 3);
  CHECK(result.restarts == 2);
  CHECK(said == std::vector<std::string>{"rank 1 restart 1 step 0", "rank 1 restart 2 step 7"});
  // Each rank has one log for all attempts, with a line before each restart. The result's tail, the
  // last lines of output, is from the last attempt.
  const std::string log = read_file(folder / "logs/rank-1.log");
  CHECK_THAT(log, Catch::StartsWith("attempt 0 of 2 start\n--- restart 1 of 2, ") &&
                      Catch::Contains(" ---\nattempt 1 of 2 start\n--- restart 2 of 2, ") &&
                      Catch::EndsWith(" ---\nattempt 2 of 2 step\n"));
  CHECK(result.ranks[1].tail == std::vector<std::string>{"attempt 2 of 2 step"});
}

TEST_CASE("a job that ends well after a restart is well") {
  const TemporaryFolder folder;
  RestartPolicy policy;
  policy.max_restarts = 5;
  const JobSpec job = shell_job(folder, 1, "exit $((1 - TORCHELASTIC_RESTART_COUNT))");
  const JobResult result = supervise_with_restarts(job, policy, {});
  CHECK(result.exit_status == 0);
  CHECK(result.restarts == 1);
}

TEST_CASE("a job that the user stops does not start again") {
  const DefaultAction not_ignored(SIGTERM);
  const TemporaryFolder folder;
  RestartPolicy policy;
  policy.max_restarts = 5;
  policy.any_failure = true;
  const JobSpec job =
      shell_job(folder, 1, "trap 'exit 4' TERM; echo ready; while :; do sleep 0.02; done");
  const JobResult result = supervise_with_restarts(job, policy, signal_on_ready(SIGTERM));
  CHECK(result.exit_status == 4);
  CHECK(result.restarts == 0);
}

TEST_CASE("node 0 does not wait at the end for a node that is gone") {
  const TemporaryFolder folder;
  ScriptedStore store;
  JobSpec job = shell_job(folder, 1, "exit 3");
  job.num_nodes = 2;
  job.store = &store;
  job.silence_seconds = 1.0;
  const JobResult result = supervise_with_restarts(job, {}, {});
  CHECK(result.exit_status == 3);
  CHECK(result.silent_nodes == std::vector<int64_t>{1});
  CHECK(store.asked.count("left-1") == 0);
}

TEST_CASE("the user's signal ends a launcher that waits for its port") {
  const DefaultAction not_ignored(SIGTERM);
  const TemporaryFolder folder;
  ScriptedStore store;
  store.on_get = [&](const std::string& key) {
    if (key == "port" && store.asked[key] == 1) ::raise(SIGTERM);
  };
  JobSpec job = shell_job(folder, 1, "touch $DIR/started");
  job.num_nodes = 2;
  job.node_rank = 1;
  job.store = &store;
  const JobResult result = supervise(job, {});
  CHECK(result.exit_status == 1);
  CHECK(result.stop_signal == SIGTERM);
  CHECK(result.ended_by_user);
  CHECK(describe(result) == "the job was stopped before its ranks were started\n");
  CHECK_FALSE(std::filesystem::exists(folder / "started"));
  CHECK(store.values.count("abort") == 1);  // so that other nodes do not wait for this node
  CHECK(node_report_from(store.values["report-1"])->ended_by_user);
}
