// Assignment of layers to pipeline stages, and the shape of the plan's pipeline for schedules. The
// number of stages of the whole pipeline is pp * virtual_stages.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "am/config/plan.h"
#include "am/model/config.h"
#include "am/pipeline/communication.h"
#include "am/pipeline/shape.h"

namespace am::layout {

// Returns the stage of every layer. If the plan has valid split points, they determine the stages;
// otherwise pipeline.balance selects equal costs or equal numbers of layers. Rule "pp.split_points"
// reports invalid split points, which are ignored here.
std::vector<int> stage_of_layers(const config::Plan& plan, const model::ModelConfig& config,
                                 int64_t stages);
// Overload without a model: without valid split points, returns stages_of_even_layers().
std::vector<int> stage_of_layers(const config::PipelineSection& pipeline, int64_t layers,
                                 int64_t stages);

// Splits layers evenly. If `stages` does not divide `layers`, the first stages get one more layer
// each, as in AutoModel's pipeline.
std::vector<int> stages_of_even_layers(int64_t layers, int64_t stages);

// Splits layers into stages of consecutive layers, at least one each, so that the cost of the most
// expensive stage is minimal. Among such splits, chooses the one with the least sum of the stages'
// squared costs, and then the one with more layers in the first stages. `costs` contains one cost
// per layer, none negative; `last` is the additional cost of the last stage. The time is at most
// O(stages * layers^2). Requires at least `stages` layers.
std::vector<int> stages_of_even_costs(const std::vector<double>& costs, double last,
                                      int64_t stages);

// Returns the schedule with its sizes. If the plan does not set pipeline.microbatches, a round has
// one micro-batch per stage.
pipeline::PipelineShape pipeline_shape(const config::PipelineSection& pipeline, int64_t pp);

// Overload for a whole plan on `dp` data-parallel ranks. Under the strategy megatron, a round may
// have fewer micro-batches than the pipeline has stages, and if the plan does not set
// pipeline.microbatches, a round has all micro-batches of the step.
pipeline::PipelineShape pipeline_shape(const config::Plan& plan, int64_t pp, int64_t dp);

// Returns the actions that each rank executes (pipeline/communication.h), with only the
// micro-batches that can affect the live memory; a schedule from a file keeps all. Returns null if
// pp = 1. If the shape violates a constraint of its schedule, returns the lists of gpipe (with
// virtual stages, of looped_bfs), or null if the shape also violates a constraint of that schedule.
// Results are cached, except for schedules from files, because searches request few different
// shapes, each thousands of times.
std::shared_ptr<const pipeline::ExecutionLists> executed_lists(pipeline::PipelineShape shape);

// Whether the split points are valid: stages - 1 strictly ascending numbers from 0 to `layers`. If
// the first is 0, the first stage has the embedding alone; if the last is `layers`, the last stage
// has the head alone.
bool split_points_fit(const std::vector<int64_t>& split_points, int64_t layers, int64_t stages);

}  // namespace am::layout
