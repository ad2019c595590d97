#include "am/planner/stages.h"

#include <algorithm>
#include <map>
#include <string>
#include <tuple>

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

namespace {

// Later micro-batches repeat what these do, but for schedules that run all forwards first.
constexpr int64_t kRoundsThatMatter = 2;

std::shared_ptr<const pipeline::ExecutionLists> make_lists(pipeline::PipelineShape shape) {
  if (pipeline::violated_demand(shape)) {
    shape.schedule = "looped_bfs";
    if (shape.virtual_stages == 1) shape.schedule = "gpipe";
  }
  if (pipeline::violated_demand(shape)) return nullptr;
  return std::make_shared<const pipeline::ExecutionLists>(
      pipeline::with_communication(pipeline::make_schedule(shape)));
}

}  // namespace

std::shared_ptr<const pipeline::ExecutionLists> executed_lists(pipeline::PipelineShape shape) {
  using Key = std::tuple<std::string, int64_t, int64_t, int64_t>;
  constexpr size_t kMostRemembered = 256;
  thread_local std::map<Key, std::shared_ptr<const pipeline::ExecutionLists>> remembered;
  if (shape.pp == 1) return nullptr;
  const int64_t enough = kRoundsThatMatter * shape.stages();
  if (shape.microbatches > enough && shape.schedule != "gpipe" && shape.schedule != "looped_bfs") {
    shape.microbatches = enough;
  }
  const Key key{shape.schedule, shape.pp, shape.virtual_stages, shape.microbatches};
  if (remembered.size() >= kMostRemembered && !remembered.contains(key)) remembered.clear();
  const auto [known, is_new] = remembered.try_emplace(key, nullptr);
  if (is_new) known->second = make_lists(shape);
  return known->second;
}

}  // namespace am::planner
