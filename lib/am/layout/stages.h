// Assignment of layers to pipeline stages, and the shape of the plan's pipeline for schedules.
// Stages are counted over the whole pipeline, including virtual ones: pp * virtual_stages.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "am/config/plan.h"
#include "am/model/config.h"
#include "am/pipeline/communication.h"
#include "am/pipeline/shape.h"

namespace am::layout {

// Returns the stage of every layer. The plan's split points decide or, without them, the key
// pipeline.balance. Invalid split points (rule "pp.split_points") are ignored.
std::vector<int> stage_of_layers(const config::Plan& plan, const model::ModelConfig& config,
                                 int64_t stages);
// Overload without a model: without valid split points, returns stages_of_even_layers().
std::vector<int> stage_of_layers(const config::PipelineSection& pipeline, int64_t layers,
                                 int64_t stages);

// Splits layers evenly. If `stages` does not divide `layers`, the first stages get one more layer
// each, as in AutoModel's pipeline.
std::vector<int> stages_of_even_layers(int64_t layers, int64_t stages);

// Splits layers into stages of consecutive layers, at least one each, so that the cost of the most
// expensive stage is minimal. Ties are broken by the least sum of squares, then by more layers in
// the first stages. `costs` has one cost per layer, none negative; `last` is the additional cost of
// the last stage. Takes O(stages * layers^2) at most. Requires at least `stages` layers.
std::vector<int> stages_of_even_costs(const std::vector<double>& costs, double last,
                                      int64_t stages);

// Returns the schedule with its sizes. If the plan does not set `microbatches`, there is one per
// stage.
pipeline::PipelineShape pipeline_shape(const config::PipelineSection& pipeline, int64_t pp);

// Overload for a whole plan on `dp` data-parallel ranks. Under the strategy megatron, a run of the
// schedule has all micro-batches of the step, and may have fewer than the pipeline has stages.
pipeline::PipelineShape pipeline_shape(const config::Plan& plan, int64_t pp, int64_t dp);

// Returns the actions that each rank executes (pipeline/communication.h), with only the
// micro-batches that can affect the live memory. Null if pp = 1. If the shape violates a constraint
// of its schedule, returns the lists of gpipe (with virtual stages, of looped_bfs), or null if
// those have a violation too. Results are cached for named schedules, because searches request few
// different shapes, each thousands of times.
std::shared_ptr<const pipeline::ExecutionLists> executed_lists(pipeline::PipelineShape shape);

// Whether the split points are valid first layers of the stages after the first: ascending, inside
// the model, and stages - 1 of them.
bool split_points_fit(const std::vector<int64_t>& split_points, int64_t layers, int64_t stages);

}  // namespace am::layout
