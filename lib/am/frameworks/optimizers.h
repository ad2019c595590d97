// Converts a plan's optimizer to PyTorch's class names and back, for the frameworks that use these
// names.
#pragma once

#include <string>
#include <string_view>

#include "am/frameworks/job_shape.h"
#include "am/frameworks/plan_builder.h"

namespace am::frameworks {

// Returns PyTorch's class name of the optimizer: "Adam", "SGD", or "AdamW" for any other optimizer.
// If the plan's optimizer is not AdamW either, the export lists the optimizer as lost.
std::string torch_optimizer(const config::OptimizerSection& optimizer);
// Changes the optimizer's arguments in `to` from those of AdamW to those of SGD: removes betas and
// eps, and adds momentum and nesterov if the plan sets them.
void write_sgd(const config::OptimizerSection& optimizer, Json& to);

// Sets the plan's optimizer from the class name in the setting `path`. The class name may have a
// module prefix, for example "torch.optim.". Without the setting, the optimizer is AdamW. An
// optimizer that plans do not support is recorded as lost. `arguments`: prefix of the keys of the
// optimizer's arguments, for example "optimizer.".
void read_torch_optimizer(PlanBuilder& builder, std::string_view path, std::string_view arguments);
// Overload for a class name that has been read from the setting `path` already.
void set_torch_optimizer(PlanBuilder& builder, std::string_view name, std::string_view path,
                         std::string_view arguments);

}  // namespace am::frameworks
