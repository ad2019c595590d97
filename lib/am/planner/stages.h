// Which pipeline stage holds which layer, and the plan's pipeline as schedules see it.
//
// Stages count over the whole pipeline, virtual ones included: pp * virtual_stages of them. Who
// runs which is pipeline::stage_owners().
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "am/config/plan.h"
#include "am/model/config.h"
#include "am/pipeline/communication.h"
#include "am/pipeline/shape.h"

namespace am::planner {

// Stage of every layer: as the plan's split points say, else by its pipeline.balance. Split points
// that make no sense (rule "pp.split_points") are ignored.
std::vector<int> stage_of_layers(const config::Plan& plan, const model::ModelConfig& config,
                                 int64_t stages);
// The same without a model: its layers are assigned evenly whatever `balance` says.
std::vector<int> stage_of_layers(const config::PipelineSection& pipeline, int64_t layers,
                                 int64_t stages);

// As many layers for each stage; those that are left over go to the first ones, as in AutoModel's
// pipeline.
std::vector<int> stages_of_even_layers(int64_t layers, int64_t stages);

// The stage of each layer when stages are consecutive layers, at least one each, and the fullest is
// as light as it can be; of several such the one with the least sum of squares, and of these the
// one whose first stages have more layers. `costs` by layer, none negative; `last` is what the last
// stage has besides. O(layers^2). At least `stages` layers.
std::vector<int> stages_of_even_costs(const std::vector<double>& costs, double last,
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
