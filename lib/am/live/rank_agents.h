// Threads that answer questions about ranks even while their training threads hang. Each rank has
// one thread; that of rank 0 also asks the others.
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
  // Tells this rank's thread to end. It may end later, but does not access the caller's objects
  // after the destructor.
  ~RankAgents();

  // Asks all ranks, or rank `only`, for RankStatus::answer(what). When they have answered, calls
  // `use` with the answers, in the thread that this class has on rank 0. Returns false if too many
  // questions are queued. May be called on rank 0, by any thread.
  bool ask(const Json& what, std::optional<int64_t> only, std::function<void(const Answers&)> use);
  // Prevents further calls of `use` functions: after close() returns, none is called.
  void close();

 private:
  struct Shared;
  std::shared_ptr<Shared> shared_;
};

}  // namespace am::live
