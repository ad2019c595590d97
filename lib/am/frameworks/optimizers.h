// Converts a plan's optimizer to and from PyTorch's class names, which several frameworks use.
#pragma once

#include <string>
#include <string_view>

#include "am/frameworks/job_shape.h"
#include "am/frameworks/plan_builder.h"

namespace am::frameworks {

// Returns "Adam" or "SGD" for these optimizers, and "AdamW" for all others. If the plan has none of
// the three, the export lists its optimizer as lost.
std::string torch_optimizer(const config::OptimizerSection& optimizer);
// Changes the arguments in `to` from AdamW's to SGD's: removes betas and eps, adds momentum and
// nesterov if the plan sets them.
void write_sgd(const config::OptimizerSection& optimizer, Json& to);

// Sets the plan's optimizer from the class name in the setting `path`, which may have a module
// prefix such as "torch.optim."; AdamW if the setting is missing. An optimizer that plans do not
// support is recorded as lost. `arguments`: prefix of the optimizer's settings, for example
// "optimizer.".
void read_torch_optimizer(PlanBuilder& builder, std::string_view path, std::string_view arguments);
// Overload for a name that has already been read.
void set_torch_optimizer(PlanBuilder& builder, std::string_view name, std::string_view path,
                         std::string_view arguments);

}  // namespace am::frameworks
