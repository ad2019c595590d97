// Threads that report the state of ranks even while the training threads hang. Each rank runs one
// of these threads. The thread of rank 0 also requests reports from the other ranks.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "am/base/json.h"
#include "am/live/questions.h"
#include "am/live/rank_status.h"
#include "am/runtime/world.h"

namespace am::live {

class RankAgents {
 public:
  // `ended` is called when this rank's thread ends because the job ends or its store is lost; may
  // be empty.
  RankAgents(const runtime::World& world, std::shared_ptr<RankStatus> self,
             std::function<void()> ended = {});
  RankAgents(const RankAgents&) = delete;
  RankAgents& operator=(const RankAgents&) = delete;
  // On rank 0, ends the threads of all ranks. On every rank, waits up to 1.5 s for this rank's
  // thread to end. A thread that ends later no longer accesses objects of the caller.
  ~RankAgents();

  // Must be called on rank 0, by any thread. Requests RankStatus::answer(what) from `ranks`, which
  // must be in ascending order and not empty; nullopt: from all ranks. Calls `use` with the
  // answers, on the thread of this class, when all answers have arrived or the time for them is
  // over. Returns false if too many requests are queued. An `urgent` request is always accepted.
  bool ask(const Json& what, std::optional<std::vector<int64_t>> ranks,
           std::function<void(const Answers&)> use, bool urgent = false);
  // Prevents further calls of the `use` functions. After close() returns, none of them is running
  // or will be called.
  void close();

 private:
  struct Shared;
  std::shared_ptr<Shared> shared_;
};

}  // namespace am::live
