// Threads that answer questions about ranks while their training threads cannot: one in each rank,
// and one more on rank 0 that asks.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "am/base/json.h"
#include "am/live/questions.h"
#include "am/live/rank_status.h"
#include "am/runtime/world.h"

namespace am::live {

class RankAgents {
 public:
  RankAgents(const runtime::World& world, std::shared_ptr<RankStatus> self);
  RankAgents(const RankAgents&) = delete;
  RankAgents& operator=(const RankAgents&) = delete;
  // The threads end soon after; they do not access the caller's objects after destruction.
  ~RankAgents();

  // On rank 0, from any thread: calls `use` on the asking thread with the answers of all ranks, or
  // of rank `only`, to RankStatus::answer(what). Returns false if too many questions are queued.
  bool ask(const Json& what, std::optional<int64_t> only, std::function<void(const Answers&)> use);
  // Guarantees that `use` is not called after it returns.
  void close();

 private:
  struct Shared;
  std::shared_ptr<Shared> shared_;
};

}  // namespace am::live
