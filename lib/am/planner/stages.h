// Which pipeline stage holds which layer, and the plan's pipeline as schedules see it.
//
// Stages count over the whole pipeline, virtual ones included: pp * virtual_stages of them. Who
// runs which is pipeline::stage_owners().
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "am/config/plan.h"
#include "am/pipeline/communication.h"
#include "am/pipeline/shape.h"

namespace am::planner {

// Stage of every layer. Without split points the layers are assigned evenly, and those that are
// left over go to the first stages, as AutoModel's pipeline does. Split points that make no sense
// (rule "pp.split_points") are ignored.
std::vector<int> stage_of_layers(const config::PipelineSection& pipeline, int64_t layers,
                                 int64_t stages);

// The schedule and its sizes; without `microbatches` in the plan there is one for each stage.
pipeline::PipelineShape pipeline_shape(const config::PipelineSection& pipeline, int64_t pp);

// What ranks execute (pipeline/communication.h), of no more micro-batches than change what is alive
// at once. Null with pp = 1. When the schedule's demands are violated, gpipe's order. Remembered:
// searches ask for the same few thousands of times.
std::shared_ptr<const pipeline::ExecutionLists> executed_lists(pipeline::PipelineShape shape);

// Whether split points name the first layer of each stage after the first: ascending, inside the
// model.
bool split_points_fit(const std::vector<int64_t>& split_points, int64_t layers, int64_t stages);

}  // namespace am::planner
