// Converts a plan's optimizer to and from PyTorch's class names, which several frameworks use.
#pragma once

#include <string>
#include <string_view>

#include "am/frameworks/job_shape.h"
#include "am/frameworks/plan_builder.h"

namespace am::frameworks {

// Returns "AdamW", "Adam" or "SGD"; "AdamW" also for optimizers that the framework lacks, which the
// export then lists as lost.
std::string torch_optimizer(const config::OptimizerSection& optimizer);
// Converts AdamW's arguments in `to` to SGD's: removes those that SGD lacks, adds its own.
void write_sgd(const config::OptimizerSection& optimizer, Json& to);

// Sets the plan's optimizer from the name at `path`, with or without a module prefix; AdamW if it
// is missing. An optimizer that plans lack is recorded as lost. `arguments`: prefix of the
// settings, "optimizer.".
void read_torch_optimizer(PlanBuilder& builder, std::string_view path, std::string_view arguments);
// Overload for a name that has already been read.
void set_torch_optimizer(PlanBuilder& builder, std::string_view name, std::string_view path,
                         std::string_view arguments);

}  // namespace am::frameworks
