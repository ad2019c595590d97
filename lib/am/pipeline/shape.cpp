#include "am/pipeline/shape.h"

#include <algorithm>

#include "am/base/text.h"
#include "am/config/schedule_names.h"
#include "am/pipeline/schedule.h"

namespace am::pipeline {
namespace {

bool has_one_stage(std::string_view schedule) { return schedule == "gpipe" || schedule == "1f1b"; }

bool runs_in_rounds(std::string_view schedule) {
  return schedule == "interleaved_1f1b" || schedule == "interleaved_zero_bubble";
}

// Whether the micro-batches divide into rounds of equal size. A round (orders_interleaved.cpp) has
// at least pp micro-batches, or all micro-batches if there are fewer than pp.
bool fills_rounds(int64_t microbatches, int64_t pp) {
  return microbatches % std::max<int64_t>(1, microbatches / pp) == 0;
}

std::string stages_text(int64_t count) { return cat(count, count == 1 ? " stage" : " stages"); }

bool runs_with_virtual_stages(std::string_view schedule, int64_t stages) {
  if (has_one_stage(schedule)) return stages == 1;
  if (schedule == "interleaved_zero_bubble") return true;
  return is_v_shaped(schedule) ? stages == 2 : stages >= 2;
}

std::optional<SizeConstraint> virtual_stages_constraint(const PipelineShape& shape) {
  if (runs_with_virtual_stages(shape.schedule, shape.virtual_stages)) return std::nullopt;
  SizeConstraint constraint{"virtual_stages",
                            cat("schedule \"", shape.schedule, "\" does not run with ",
                                stages_text(shape.virtual_stages), " on each rank"),
                            {2, 3, 4},
                            "1f1b"};
  if (has_one_stage(shape.schedule)) {
    constraint.nearest = {1};
    constraint.instead = "interleaved_1f1b";
  } else if (is_v_shaped(shape.schedule)) {
    constraint.nearest = {2};
    constraint.instead.clear();
  }
  return constraint;
}

std::optional<SizeConstraint> rounds_constraint(const PipelineShape& shape) {
  if (fills_rounds(shape.microbatches, shape.pp)) return std::nullopt;
  const int64_t rounds = shape.microbatches / shape.pp;
  SizeConstraint constraint{
      "microbatches",
      cat("schedule \"", shape.schedule, "\" assigns micro-batches to ", rounds,
          " equal rounds (microbatches / pp_size, rounded down), but microbatches = ",
          shape.microbatches, " is not a multiple of ", rounds),
      {},
      "looped_bfs"};
  // Both loops take at most pp steps, because every multiple of pp divides into equal rounds.
  int64_t below = shape.microbatches - 1;
  while (!fills_rounds(below, shape.pp)) --below;
  int64_t above = shape.microbatches + 1;
  while (!fills_rounds(above, shape.pp)) ++above;
  constraint.nearest = {below, above};
  return constraint;
}

std::optional<SizeConstraint> microbatches_constraint(const PipelineShape& shape) {
  if (shape.microbatches < 1) {
    return SizeConstraint{"microbatches", "a schedule needs at least one micro-batch", {1}, {}};
  }
  if (runs_in_rounds(shape.schedule)) return rounds_constraint(shape);
  if (shape.schedule == "1f1b" && shape.may_stay_partly_full) return std::nullopt;
  const bool fills = shape.schedule == "1f1b" || shape.schedule == "dual_pipe_v";
  if (!fills || shape.microbatches >= shape.stages()) return std::nullopt;
  return SizeConstraint{
      "microbatches",
      cat("schedule \"", shape.schedule, "\" needs at least one micro-batch for each of its ",
          shape.stages(), " stages, but microbatches = ", shape.microbatches),
      {shape.stages(), shape.stages() * 2},
      shape.schedule == "1f1b" ? "gpipe" : "zbv_zero_bubble"};
}

// Returns the largest number of micro-batches that kLargestSchedule allows. Returns less than 1 if
// even one micro-batch is too many.
int64_t most_microbatches(const PipelineShape& shape) {
  if (shape.pp > kLargestSchedule / shape.virtual_stages) return 0;
  return kLargestSchedule / shape.stages() - shape.pp;
}

std::optional<SizeConstraint> size_constraint(const PipelineShape& shape) {
  const int64_t most = most_microbatches(shape);
  if (shape.microbatches <= most) return std::nullopt;
  SizeConstraint constraint{
      "microbatches",
      cat("the schedule is too large to be listed: ", shape.pp, " ranks * ", shape.virtual_stages,
          " stages * ", shape.microbatches, " micro-batches"),
      {},
      {}};
  // Suggests the largest multiple of pp within the limit, because every multiple of pp divides into
  // equal rounds.
  PipelineShape smaller = shape;
  smaller.microbatches = most / shape.pp * shape.pp;
  if (most > 0 && !microbatches_constraint(smaller)) constraint.nearest = {smaller.microbatches};
  return constraint;
}

std::string ranks_text(int64_t count) { return cat(count, count == 1 ? " rank" : " ranks"); }

// Returns the first constraint of a custom schedule that the shape violates. The shape's sizes must
// equal the sizes of the schedule's file, and all ranks must have the same number of stages.
std::optional<SizeConstraint> own_constraint(const PipelineShape& shape) {
  const Schedule& own = *shape.own;
  if (own.pp() != shape.pp) {
    return SizeConstraint{"schedule",
                          cat(shape.schedule, " is a schedule for ", ranks_text(own.pp()),
                              ", but pp_size = ", shape.pp),
                          {},
                          "1f1b"};
  }
  const int64_t each = own.stages() / own.pp();
  for (int64_t rank = 0; rank < own.pp(); ++rank) {
    const int64_t count = std::count(own.owners.begin(), own.owners.end(), rank);
    if (count * own.pp() == own.stages()) continue;
    return SizeConstraint{
        "schedule",
        cat(shape.schedule, " has ", own.stages(), " stages on ", ranks_text(own.pp()), ", ", count,
            " of them on rank ", rank, ": all ranks need the same number"),
        {},
        "1f1b"};
  }
  if (each != shape.virtual_stages) {
    return SizeConstraint{"virtual_stages",
                          cat(shape.schedule, " has ", stages_text(each), " on each rank, but ",
                              "virtual_stages = ", shape.virtual_stages),
                          {each},
                          {}};
  }
  if (own.microbatches != shape.microbatches) {
    return SizeConstraint{"microbatches",
                          cat(shape.schedule, " is a schedule of ", own.microbatches,
                              " micro-batches, but microbatches = ", shape.microbatches),
                          {own.microbatches},
                          {}};
  }
  return std::nullopt;
}

}  // namespace

std::span<const std::string_view> schedule_names() { return config::kScheduleNames; }

bool is_v_shaped(std::string_view schedule) {
  return schedule == "zbv_zero_bubble" || schedule == "dual_pipe_v";
}

std::vector<int64_t> stage_owners(std::string_view schedule, int64_t pp, int64_t virtual_stages) {
  std::vector<int64_t> owners;
  for (int64_t lap = 0; lap < virtual_stages; ++lap) {
    const bool comes_back = is_v_shaped(schedule) && lap % 2 == 1;
    for (int64_t at = 0; at < pp; ++at) owners.push_back(comes_back ? pp - 1 - at : at);
  }
  return owners;
}

std::vector<int64_t> stage_owners(const PipelineShape& shape) {
  const bool fits =
      shape.own && shape.own->pp() == shape.pp && shape.own->stages() == shape.stages();
  return fits ? shape.own->owners : stage_owners(shape.schedule, shape.pp, shape.virtual_stages);
}

std::optional<SizeConstraint> violated_constraint(const PipelineShape& shape) {
  if (shape.own) return own_constraint(shape);
  if (std::find(config::kScheduleNames.begin(), config::kScheduleNames.end(), shape.schedule) ==
      config::kScheduleNames.end()) {
    return SizeConstraint{
        "schedule", cat("there is no schedule \"", shape.schedule, "\""), {}, "1f1b"};
  }
  if (shape.pp < 1 || shape.virtual_stages < 1) {
    return SizeConstraint{
        "virtual_stages", "a pipeline has at least one stage on each rank", {1}, {}};
  }
  if (auto constraint = virtual_stages_constraint(shape)) return constraint;
  if (auto constraint = size_constraint(shape)) return constraint;
  return microbatches_constraint(shape);
}

}  // namespace am::pipeline
