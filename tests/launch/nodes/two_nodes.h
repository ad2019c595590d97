// Two launchers, each in a separate process, that share a store and simulate two machines.
#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <csignal>
#include <memory>
#include <string>
#include <utility>

#include "am/base/error.h"
#include "am/base/file.h"
#include "am/launch/nodes/background_store.h"
#include "am/launch/nodes/node_rendezvous.h"
#include "am/launch/supervise/restart.h"
#include "launch/supervise/job_support.h"

namespace launch_test {

// A store with one file per key. The processes of one machine can share the store. Removing the
// folder simulates the death of the launcher that serves the store.
class FolderStore : public am::launch::KeyValueStore {
 public:
  explicit FolderStore(std::filesystem::path folder) : folder_(std::move(folder)) {}

  void set(const std::string& key, const std::string& value) override {
    check();
    am::write_file_atomically(file(key), value);
  }
  std::optional<std::string> get(const std::string& key) override {
    check();
    if (!std::filesystem::exists(file(key))) return std::nullopt;
    return am::read_file(file(key));
  }

 private:
  void check() const {
    if (std::filesystem::exists(folder_)) return;
    throw am::Error(am::ErrorKind::kPeer, "the store is gone");
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
  // Contains, for each restart, the output of describe() and a line about the restart. The text
  // ends with the output of describe() for the last attempt or, if the launcher throws an error,
  // with the error message.
  std::string said;
};

// Two nodes with two ranks each, which run `script`; ranks 0 and 1 are on node 0.
class TwoNodes {
 public:
  explicit TwoNodes(std::string script) : script_(std::move(script)) {
    std::filesystem::create_directory(store());
  }

  std::filesystem::path store() const { return folder_ / "store"; }
  const TemporaryFolder& folder() const { return folder_; }

  am::launch::JobSpec job(int64_t node) const {
    am::launch::JobSpec job = shell_job(folder_, 2, script_);
    job.log_folder = folder_ / am::cat("logs-", node);
    job.num_nodes = 2;
    job.node_rank = node;
    job.settle_seconds = 1.0;
    job.grace_seconds = 2.0;
    job.silence_seconds = 4.0;
    return job;
  }

  pid_t pid(int64_t node) const { return nodes_[static_cast<size_t>(node)].pid; }

  // Returns whether a launcher has stored the key, for example "attempt-0/report-1".
  bool is_in_store(std::string key) const {
    std::replace(key.begin(), key.end(), '/', '_');
    return std::filesystem::exists(store() / am::cat("automesh_launch_none_", key));
  }

  // Starts the launcher of one node.
  void start(int64_t node, am::launch::RestartPolicy policy = {}) {
    start(job(node), std::move(policy));
  }
  void start(const am::launch::JobSpec& spec, am::launch::RestartPolicy policy = {}) {
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
    if (std::filesystem::exists(folder_ / am::cat("said-", node))) {
      ended.said = am::read_file(folder_ / am::cat("said-", node));
    }
    return ended;
  }

 private:
  int launch(am::launch::JobSpec spec, am::launch::RestartPolicy policy) const {
    ::signal(SIGTERM, SIG_DFL);
    std::string said;
    policy.announce = [&](const am::launch::JobResult& failed, int64_t restart,
                          std::optional<int64_t> step) {
      said += am::launch::describe(failed) +
              am::cat("restart ", restart, " from ", step.value_or(-1), "\n");
    };
    int status = 0;
    try {
      am::launch::BackgroundStore store(std::make_shared<FolderStore>(this->store()),
                                        am::launch::heartbeat_key(spec.run_id, spec.node_rank));
      spec.store = &store;
      const am::launch::JobResult result = am::launch::supervise_with_restarts(spec, policy, {});
      said += am::launch::describe(result);
      status = result.exit_status;
    } catch (const am::Error& error) {
      said += error.what();
      status = error.exit_status();
    }
    am::write_file_atomically(folder_ / am::cat("said-", spec.node_rank), said);
    return status;
  }

  TemporaryFolder folder_;
  std::string script_;
  std::array<Node, 2> nodes_;
};

// Shell commands that are a barrier of all four ranks: they end when all ranks have started.
inline const std::string kMeet =
    "touch $DIR/up-$TORCHELASTIC_RESTART_COUNT-$RANK; "
    "for r in 0 1 2 3; do until [ -e $DIR/up-$TORCHELASTIC_RESTART_COUNT-$r ]; do sleep 0.01; "
    "done; "
    "done; ";

}  // namespace launch_test
