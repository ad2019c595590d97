#include "am/pipeline/schedule.h"

#include <array>

#include "am/base/error.h"
#include "am/base/text.h"
#include "am/pipeline/orders.h"

namespace am::pipeline {
namespace {

// Source of a schedule's bubbles. kOwn: each rank's order contains all bubbles. kForwardsWait:
// insert_bubbles() adds bubbles where forwards wait for inputs. kAllWait: insert_bubbles() adds
// bubbles where forwards or backwards wait.
enum class Bubbles { kOwn, kForwardsWait, kAllWait };

struct Entry {
  std::string_view name;
  SlotList (*order)(const PipelineShape& shape, int64_t rank);
  Bubbles bubbles;
};

constexpr std::array<Entry, 7> kSchedules = {{
    {"gpipe", gpipe_order, Bubbles::kAllWait},
    {"1f1b", one_forward_one_backward_order, Bubbles::kAllWait},
    {"looped_bfs", looped_bfs_order, Bubbles::kOwn},
    {"interleaved_1f1b", interleaved_1f1b_order, Bubbles::kOwn},
    {"interleaved_zero_bubble", interleaved_zero_bubble_order, Bubbles::kForwardsWait},
    {"zbv_zero_bubble", zbv_zero_bubble_order, Bubbles::kOwn},
    {"dual_pipe_v", dual_pipe_v_order, Bubbles::kOwn},
}};

const Entry& find_legal(const PipelineShape& shape) {
  if (const auto constraint = violated_constraint(shape))
    throw Error(ErrorKind::kPlan, constraint->message);
  for (const Entry& entry : kSchedules) {
    if (entry.name == shape.schedule) return entry;
  }
  throw Error(ErrorKind::kInternal, cat("schedule \"", shape.schedule, "\" has no implementation"));
}

}  // namespace

Schedule make_schedule(const PipelineShape& shape) {
  if (shape.own && !violated_constraint(shape)) return *shape.own;
  const Entry& entry = find_legal(shape);
  Schedule schedule{.name = shape.schedule,
                    .microbatches = shape.microbatches,
                    .owners = stage_owners(shape.schedule, shape.pp, shape.virtual_stages),
                    .ranks = {}};
  for (int64_t rank = 0; rank < shape.pp; ++rank) {
    schedule.ranks.push_back(entry.order(shape, rank));
  }
  if (entry.bubbles != Bubbles::kOwn) {
    schedule.ranks = insert_bubbles(schedule.ranks, shape, entry.bubbles == Bubbles::kAllWait);
  }
  return schedule;
}

std::vector<Slot> make_rank_order(const PipelineShape& shape, int64_t rank) {
  if (shape.own && !violated_constraint(shape)) return shape.own->ranks[static_cast<size_t>(rank)];
  return find_legal(shape).order(shape, rank);
}

std::vector<int64_t> in_flight_by_stage(const std::vector<Slot>& list, int64_t stages) {
  const auto change = [](const Action& action) {
    return action.kind == Kind::kForward ? 1 : (ends_micro_batch(action.kind) ? -1 : 0);
  };
  int64_t now = 0;
  int64_t most = 0;
  // Number of slots up to and including the one whose forward first brings the number of
  // micro-batches in flight to its maximum, `most`.
  size_t when = 0;
  for (size_t i = 0; i < list.size(); ++i) {
    for (const Action& action : list[i].actions()) {
      now += change(action);
      if (now <= most) continue;
      most = now;
      when = i + 1;
    }
  }
  std::vector<int64_t> peak(static_cast<size_t>(stages), 0);
  for (size_t i = 0; i < when; ++i) {
    for (const Action& action : list[i].actions()) {
      // In the slot of the maximum, a pair's forward has started and its backward has not ended, so
      // only the forward counts.
      if (i + 1 == when && action.kind != Kind::kForward) continue;
      peak[static_cast<size_t>(action.stage)] += change(action);
    }
  }
  return peak;
}

}  // namespace am::pipeline
