// The sizes of a pipeline, where its stages live, and what each schedule demands of the sizes.
//
//   const PipelineShape shape{.schedule = "1f1b", .pp = 4, .microbatches = 3};
//   if (const auto demand = violated_demand(shape)) std::cerr << demand->message << "\n";
//
// Stages count over the whole pipeline: pp * virtual_stages of them.
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
  int64_t virtual_stages = 1;  // stages of one rank
  int64_t microbatches = 1;
  // A schedule of one's own (csv.h), whose sizes must be these; `schedule` is its file then.
  std::shared_ptr<const Schedule> own = nullptr;

  int64_t stages() const { return pp * virtual_stages; }
};

// The seven names, as plans write them.
std::span<const std::string_view> schedule_names();

// zbv_zero_bubble and dual_pipe_v: the first rank has the first and the last stage.
bool is_v_shaped(std::string_view schedule);

// Index along pp of every stage. Looped schedules assign stages round; the V-shaped ones go down
// and come back.
std::vector<int64_t> stage_owners(std::string_view schedule, int64_t pp, int64_t virtual_stages);
// The same, or of an own schedule what its file says; round where that has other sizes.
std::vector<int64_t> stage_owners(const PipelineShape& shape);

// Schedules are lists, of about stages * (microbatches + pp) slots. What is larger than this is a
// mistake in a plan and is refused rather than listed.
inline constexpr int64_t kLargestSchedule = int64_t{1} << 21;

// A condition on the sizes that does not hold.
struct Demand {
  std::string key;               // "schedule", "virtual_stages" or "microbatches"
  std::string message;           // a sentence without its full stop
  std::vector<int64_t> nearest;  // legal values of `key` around the given one, ascending
  std::string instead;           // another schedule that runs with these sizes; may be empty
};

// The first condition of this schedule that the sizes violate. Cheap for any sizes.
std::optional<Demand> violated_demand(const PipelineShape& shape);

}  // namespace am::pipeline
