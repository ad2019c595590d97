// Which pipeline stage holds which layer, and which index along pp runs which stage.
//
// Stages count over the whole pipeline, virtual ones included: pp * virtual_stages of them.
#pragma once

#include <cstdint>
#include <vector>

#include "am/config/plan.h"

namespace am::planner {

// Stage of every layer. Without split points the layers are dealt evenly, and those that are left
// over go to the first stages, as AutoModel's pipeline does. Split points that make no sense (rule
// "pp.split_points") are ignored.
std::vector<int> stage_of_layers(const config::PipelineSection& pipeline, int64_t layers,
                                 int64_t stages);

// Index along pp of every stage. Looped schedules deal stages round; the V-shaped ones
// (zbv_zero_bubble, dual_pipe_v) go down and come back, so that the first rank has the first and
// the last stage.
std::vector<int64_t> stage_owners(const config::PipelineSection& pipeline, int64_t pp);

// Whether split points name the first layer of each stage after the first: ascending, inside the
// model.
bool split_points_fit(const std::vector<int64_t>& split_points, int64_t layers, int64_t stages);

bool is_v_shaped(const std::string& schedule);

}  // namespace am::planner
