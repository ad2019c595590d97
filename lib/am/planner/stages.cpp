#include "am/planner/stages.h"

#include <algorithm>

#include "am/config/batch.h"
#include "am/pipeline/schedule.h"

namespace am::planner {

bool split_points_fit(const std::vector<int64_t>& split_points, int64_t layers, int64_t stages) {
  if (static_cast<int64_t>(split_points.size()) != stages - 1) return false;
  int64_t previous = 0;
  for (const int64_t first : split_points) {
    if (first <= previous || first >= layers) return false;
    previous = first;
  }
  return true;
}

std::vector<int> stage_of_layers(const config::PipelineSection& pipeline, int64_t layers,
                                 int64_t stages) {
  std::vector<int> stage_of(static_cast<size_t>(layers), 0);
  if (split_points_fit(pipeline.split_points, layers, stages)) {
    for (int64_t layer = 0; layer < layers; ++layer) {
      const auto& points = pipeline.split_points;
      const auto after = std::upper_bound(points.begin(), points.end(), layer);
      stage_of[static_cast<size_t>(layer)] = static_cast<int>(after - points.begin());
    }
    return stage_of;
  }
  const int64_t share = layers / stages;
  const int64_t left_over = layers % stages;
  int64_t layer = 0;
  for (int64_t stage = 0; stage < stages; ++stage) {
    const int64_t count = share + (stage < left_over ? 1 : 0);
    for (int64_t i = 0; i < count; ++i, ++layer) {
      stage_of[static_cast<size_t>(layer)] = static_cast<int>(stage);
    }
  }
  return stage_of;
}

pipeline::PipelineShape pipeline_shape(const config::PipelineSection& pipeline, int64_t pp) {
  return {.schedule = pipeline.schedule,
          .pp = pp,
          .virtual_stages = pipeline.virtual_stages,
          .microbatches = config::microbatches_of_round(pipeline, pp)};
}

std::vector<int64_t> micro_batches_in_flight(const pipeline::PipelineShape& shape) {
  const auto stages = static_cast<size_t>(shape.stages());
  if (shape.pp == 1) return std::vector<int64_t>(stages, 1);
  if (pipeline::violated_demand(shape)) return std::vector<int64_t>(stages, shape.microbatches);
  std::vector<int64_t> in_flight(stages, 0);
  for (int64_t rank = 0; rank < shape.pp; ++rank) {
    const auto own =
        pipeline::in_flight_by_stage(pipeline::make_rank_order(shape, rank), shape.stages());
    for (size_t stage = 0; stage < stages; ++stage) in_flight[stage] += own[stage];
  }
  return in_flight;
}

}  // namespace am::planner
