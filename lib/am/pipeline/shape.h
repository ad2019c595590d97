// Sizes of a pipeline, the ranks of its stages, and each schedule's constraints on the sizes.
//
//   const PipelineShape shape{.schedule = "1f1b", .pp = 4, .microbatches = 3};
//   if (const auto constraint = violated_constraint(shape)) std::cerr << constraint->message << "\n";
//
// The number of stages of the whole pipeline is pp * virtual_stages.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace am::pipeline {

struct Schedule;

struct PipelineShape {
  std::string schedule = "1f1b";
  int64_t pp = 1;
  int64_t virtual_stages = 1;  // stages per rank
  int64_t microbatches = 1;
  // A custom schedule (csv.h), which must have these sizes; `schedule` is then its file.
  std::shared_ptr<const Schedule> own = nullptr;

  int64_t stages() const { return pp * virtual_stages; }
};

// The seven names of schedules in plans.
std::span<const std::string_view> schedule_names();

// True for zbv_zero_bubble and dual_pipe_v, in which the first rank has the first and the last
// stage.
bool is_v_shaped(std::string_view schedule);

// Returns the pp index of every stage's rank. Looped schedules assign stages round-robin, V-shaped
// schedules from the first rank to the last and back.
std::vector<int64_t> stage_owners(std::string_view schedule, int64_t pp, int64_t virtual_stages);
// Overload that also knows custom schedules: returns the owners in the file, or round-robin if the
// file has other sizes.
std::vector<int64_t> stage_owners(const PipelineShape& shape);

// Largest number of slots, about stages * (microbatches + pp), of a schedule. A larger schedule is
// assumed to be a mistake in a plan and is refused.
inline constexpr int64_t kLargestSchedule = int64_t{1} << 21;

// A violated constraint of a schedule on the sizes.
struct SizeConstraint {
  std::string key;               // "schedule", "virtual_stages" or "microbatches"
  std::string message;           // a sentence without its final full stop
  std::vector<int64_t> nearest;  // nearest legal values of `key`, ascending
  std::string instead;           // another schedule that is legal with these sizes; may be empty
};

// Returns the first constraint of the schedule that the sizes violate, without making the schedule.
std::optional<SizeConstraint> violated_constraint(const PipelineShape& shape);

}  // namespace am::pipeline
