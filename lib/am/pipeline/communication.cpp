#include "am/pipeline/communication.h"

#include <algorithm>
#include <set>

#include "am/base/error.h"
#include "am/base/text.h"

namespace am::pipeline {
namespace {

// Records which passes have been computed, by stage and micro-batch.
class Progress {
 public:
  Progress(const std::vector<int64_t>& owners, int64_t microbatches)
      : stages_(static_cast<int64_t>(owners.size())),
        microbatches_(microbatches),
        forwards_(owners.size() * static_cast<size_t>(microbatches)),
        backwards_(forwards_) {}

  bool ready(const Slot& slot) const {
    return std::all_of(slot.actions().begin(), slot.actions().end(), [this](const Action& action) {
      if (action.kind == Kind::kForward) {
        return action.stage == 0 || forwards_[index(action.stage - 1, action)];
      }
      if (!makes_input_gradient(action.kind) || action.stage + 1 == stages_) return true;
      return bool{backwards_[index(action.stage + 1, action)]};
    });
  }

  void note(const Action& action) {
    if (action.kind == Kind::kForward) forwards_[index(action.stage, action)] = true;
    if (makes_input_gradient(action.kind)) backwards_[index(action.stage, action)] = true;
  }

 private:
  size_t index(int64_t stage, const Action& action) const {
    return static_cast<size_t>(stage * microbatches_ + action.micro_batch);
  }

  int64_t stages_;
  int64_t microbatches_;
  std::vector<bool> forwards_;
  // By stage and micro-batch: whether the gradient of the stage's input exists.
  std::vector<bool> backwards_;
};

[[noreturn]] void throw_stuck(const ExecutionLists& lists, const std::vector<size_t>& next) {
  constexpr size_t kMostNamed = 8;
  std::vector<std::string> places;
  for (size_t rank = 0; rank < lists.size(); ++rank) {
    if (next[rank] == lists[rank].size()) continue;
    if (places.size() == kMostNamed) {
      places.emplace_back("...");
      break;
    }
    places.push_back(cat("rank ", rank, " before ", to_string(lists[rank][next[rank]])));
  }
  throw Error(ErrorKind::kPlan,
              cat("the schedule deadlocks; waiting forever: ", join(places, ", ")),
              "order the passes so that each comes after the pass that computes its input");
}

// The SEND and the RECV of the message that carries an action's result to another rank.
struct Message {
  Action send;
  Action recv;
};

std::optional<Message> message_of(const Action& action, const std::vector<int64_t>& owners) {
  const bool forward = action.kind == Kind::kForward;
  if (!forward && !makes_input_gradient(action.kind)) return std::nullopt;
  const int32_t to = forward ? action.stage + 1 : action.stage - 1;
  if (to < 0 || to == static_cast<int32_t>(owners.size())) return std::nullopt;
  if (owners[static_cast<size_t>(to)] == owners[static_cast<size_t>(action.stage)]) {
    return std::nullopt;
  }
  const auto [send, recv] = forward ? std::pair(Kind::kSendForward, Kind::kRecvForward)
                                    : std::pair(Kind::kSendBackward, Kind::kRecvBackward);
  return Message{{send, action.stage, action.micro_batch}, {recv, to, action.micro_batch}};
}

// Returns, for every slot, the stages that the list uses from this slot on: the first `count`
// different stages, in the order of their next use.
std::vector<std::vector<int32_t>> upcoming_stages(const std::vector<Slot>& list, size_t count) {
  std::vector<std::vector<int32_t>> upcoming(list.size());
  std::vector<int32_t> soonest;
  for (size_t i = list.size(); i-- > 0;) {
    const auto actions = list[i].actions();
    for (size_t j = actions.size(); j-- > 0;) {
      const auto known = std::find(soonest.begin(), soonest.end(), actions[j].stage);
      if (known != soonest.end()) soonest.erase(known);
      soonest.insert(soonest.begin(), actions[j].stage);
      // An overlapped pair needs both of its stages, even if `count` is 1.
      if (soonest.size() > std::max(count, actions.size())) soonest.pop_back();
    }
    upcoming[i] = soonest;
  }
  return upcoming;
}

}  // namespace

std::vector<Slot> add_unshard_reshard(const std::vector<Slot>& list, size_t active_stages) {
  const auto upcoming = upcoming_stages(list, active_stages);
  std::vector<Slot> out;
  std::set<int32_t> active;
  for (size_t i = 0; i < list.size(); ++i) {
    if (list[i].is_bubble()) continue;
    const std::vector<int32_t>& wanted = upcoming[i];
    for (auto stage = active.begin(); stage != active.end();) {
      if (std::find(wanted.begin(), wanted.end(), *stage) != wanted.end()) {
        ++stage;
        continue;
      }
      out.emplace_back(Action{Kind::kReshard, *stage, -1});
      stage = active.erase(stage);
    }
    for (const int32_t stage : wanted) {
      if (active.insert(stage).second) out.emplace_back(Action{Kind::kUnshard, stage, -1});
    }
    out.push_back(list[i]);
  }
  for (const int32_t stage : active) out.emplace_back(Action{Kind::kReshard, stage, -1});
  return out;
}

std::vector<Slot> add_reduce_grad(const std::vector<Slot>& list, int64_t microbatches) {
  std::vector<Slot> out;
  std::vector<int64_t> ended;  // for each stage: number of micro-batches whose backward has ended
  for (const Slot& slot : list) {
    if (slot.is_bubble()) continue;
    out.push_back(slot);
    for (const Action& action : slot.actions()) {
      if (!ends_micro_batch(action.kind)) continue;
      const auto stage = static_cast<size_t>(action.stage);
      if (stage >= ended.size()) ended.resize(stage + 1, 0);
      if (++ended[stage] == microbatches) {
        out.emplace_back(Action{Kind::kReduceGrad, action.stage, -1});
      }
    }
  }
  return out;
}

// Simulates a run of the schedule. The ranks take turns, and each turn executes one slot; a rank
// skips its turn if an input of its next slot is missing. A message enters the lists of its sender
// and its receiver in the same turn, so both lists contain the messages between the two ranks in
// the same order.
ExecutionLists add_send_recv(const ExecutionLists& lists, const std::vector<int64_t>& owners,
                             int64_t microbatches) {
  Progress progress(owners, microbatches);
  ExecutionLists out(lists.size());
  std::vector<size_t> next(lists.size(), 0);
  const auto execute = [&](size_t rank, const Slot& slot) {
    out[rank].push_back(slot);
    for (const Action& action : slot.actions()) {
      progress.note(action);
      const auto message = message_of(action, owners);
      if (!message.has_value()) continue;
      out[rank].emplace_back(message->send);
      const int64_t receiver = owners[static_cast<size_t>(message->recv.stage)];
      out[static_cast<size_t>(receiver)].emplace_back(message->recv);
    }
  };
  for (bool going_on = true; going_on;) {
    going_on = false;
    bool progressed = false;
    for (size_t rank = 0; rank < lists.size(); ++rank) {
      if (next[rank] == lists[rank].size()) continue;
      going_on = true;
      const Slot& slot = lists[rank][next[rank]];
      if (!progress.ready(slot)) continue;
      if (!slot.is_bubble()) execute(rank, slot);
      ++next[rank];
      progressed = true;
    }
    if (going_on && !progressed) throw_stuck(lists, next);
  }
  return out;
}

ExecutionLists with_communication(const Schedule& schedule) {
  ExecutionLists lists;
  for (const auto& list : schedule.ranks) {
    lists.push_back(add_reduce_grad(add_unshard_reshard(list), schedule.microbatches));
  }
  return add_send_recv(lists, schedule.owners, schedule.microbatches);
}

}  // namespace am::pipeline
