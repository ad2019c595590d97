#include "am/planner/stages.h"

#include <algorithm>

namespace am::planner {

bool is_v_shaped(const std::string& schedule) {
  return schedule == "zbv_zero_bubble" || schedule == "dual_pipe_v";
}

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

std::vector<int64_t> stage_owners(const config::PipelineSection& pipeline, int64_t pp) {
  const int64_t stages = pp * pipeline.virtual_stages;
  std::vector<int64_t> owners;
  for (int64_t stage = 0; stage < stages; ++stage) {
    const int64_t lap = stage / pp;
    const int64_t at = stage % pp;
    const bool comes_back = is_v_shaped(pipeline.schedule) && lap % 2 == 1;
    owners.push_back(comes_back ? pp - 1 - at : at);
  }
  return owners;
}

}  // namespace am::planner
