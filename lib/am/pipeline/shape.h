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
  int64_t virtual_stages = 1;  // number of stages of each rank
  int64_t microbatches = 1;
  // Whether 1f1b may run with fewer micro-batches than stages, as in Megatron; PyTorch's 1F1B
  // refuses this. Some stages then never alternate between forwards and backwards.
  bool may_stay_partly_full = false;
  // Custom schedule, read from a CSV file (csv.h); `schedule` is then the path of the file. Null
  // for a schedule of schedule_names().
  std::shared_ptr<const Schedule> own = nullptr;

  int64_t stages() const { return pp * virtual_stages; }
};

// Returns the seven names of schedules that a plan can use.
std::span<const std::string_view> schedule_names();

// Whether the schedule is zbv_zero_bubble or dual_pipe_v: in these, the first rank has both the
// first and the last stage.
bool is_v_shaped(std::string_view schedule);

// Returns the rank of every stage, as an index along pp. V-shaped schedules assign stages from the
// first rank to the last and back to the first. All other schedules assign stages round-robin.
std::vector<int64_t> stage_owners(std::string_view schedule, int64_t pp, int64_t virtual_stages);
// Overload that supports custom schedules: returns the ranks of the file's stages, or assigns
// stages round-robin if the file's pp or number of stages differs from the shape's.
std::vector<int64_t> stage_owners(const PipelineShape& shape);

// Largest number of slots of a schedule, estimated as stages * (microbatches + pp). A plan with a
// larger schedule is assumed to be a mistake and is refused.
inline constexpr int64_t kLargestSchedule = int64_t{1} << 21;

// A violated constraint of a schedule on its sizes.
struct SizeConstraint {
  std::string key;      // the key to change: "schedule", "virtual_stages" or "microbatches"
  std::string message;  // sentence without the final full stop
  std::vector<int64_t> nearest;  // nearest legal values of `key`, ascending
  std::string instead;           // another schedule that is legal with these sizes; empty: none
};

// Returns the first constraint of the schedule that the sizes violate, or nothing, without making
// the schedule.
std::optional<SizeConstraint> violated_constraint(const PipelineShape& shape);

}  // namespace am::pipeline
