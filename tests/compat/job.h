// Runs a whole job in one process: ranks in threads, placed on nodes, each with separate
// environment variables.
//
//   run_job({2, 1}, [](Distributed& dist) { ... });      // two ranks on node 0, one on node 1
#pragma once

#include <functional>
#include <map>
#include <mutex>
#include <numeric>
#include <string>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <utility>
#include <vector>

#include "am/compat/distributed.h"
#include "am/compat/init_utils.h"

namespace am::compat::job {

using Variables = std::map<std::string, std::string>;

// Returns torchrun's variables for rank `local_rank` of node `node`.
inline Variables rank_variables(const std::vector<int64_t>& ranks_of_nodes, size_t node,
                                int64_t local_rank) {
  const auto first = ranks_of_nodes.begin();
  const int64_t before = std::accumulate(first, first + static_cast<int64_t>(node), int64_t{0});
  const int64_t world = std::accumulate(first, ranks_of_nodes.end(), int64_t{0});
  const auto text = [](auto number) { return std::to_string(number); };
  return {{"RANK", text(before + local_rank)}, {"WORLD_SIZE", text(world)},
          {"LOCAL_RANK", text(local_rank)},    {"LOCAL_WORLD_SIZE", text(ranks_of_nodes[node])},
          {"GROUP_RANK", text(node)},          {"GROUP_WORLD_SIZE", text(ranks_of_nodes.size())},
          {"MASTER_ADDR", "127.0.0.1"},        {"MASTER_PORT", "29500"}};
}

// Collects the log output of a job's ranks.
class Logs {
 public:
  Log of(int64_t rank) {
    return [this, rank](LogLevel level, const std::string& message) {
      const std::lock_guard lock(mutex_);
      lines_.push_back({rank, level, message});
    };
  }
  int64_t count(LogLevel level, const std::string& part) const {
    const std::lock_guard lock(mutex_);
    int64_t found = 0;
    for (const auto& line : lines_) {
      found += line.level == level && line.text.find(part) != std::string::npos ? 1 : 0;
    }
    return found;
  }

 private:
  struct Line {
    int64_t rank;
    LogLevel level;
    std::string text;
  };
  mutable std::mutex mutex_;
  std::vector<Line> lines_;
};

// Runs `body` on ranks that have not joined the job.
inline void run_unjoined(const std::vector<int64_t>& ranks_of_nodes,
                         const std::function<void(Distributed&)>& body, Logs* logs = nullptr) {
  std::vector<std::pair<size_t, int64_t>> places;
  for (size_t node = 0; node < ranks_of_nodes.size(); ++node) {
    for (int64_t local = 0; local < ranks_of_nodes[node]; ++local) places.emplace_back(node, local);
  }
  auto store = c10::make_intrusive<c10d::HashStore>();
  runtime::run_threads(static_cast<int64_t>(places.size()), [&](int64_t rank) {
    const auto [node, local] = places[static_cast<size_t>(rank)];
    Distributed dist(compat::Variables::of(rank_variables(ranks_of_nodes, node, local)),
                     logs != nullptr ? logs->of(rank) : Log());
    dist.meet_in(store);
    body(dist);
  });
}

// Runs `body` on ranks that have joined the job over Gloo.
inline void run_job(const std::vector<int64_t>& ranks_of_nodes,
                    const std::function<void(Distributed&)>& body, Logs* logs = nullptr) {
  const auto joined = [&](Distributed& dist) {
    initialize_distributed(dist, "gloo", std::chrono::seconds(60));
    body(dist);
  };
  run_unjoined(ranks_of_nodes, joined, logs);
}

}  // namespace am::compat::job
