// A plan's optimizer under the names that frameworks share: those of PyTorch's classes.
#pragma once

#include <string>
#include <string_view>

#include "am/exchange/job_shape.h"
#include "am/exchange/plan_builder.h"

namespace am::exchange {

// "AdamW", "Adam" or "SGD"; "AdamW" too for what a framework has nothing of, which is lost then.
std::string torch_optimizer(const config::OptimizerSection& optimizer);
// Takes out of AdamW's arguments `to` what SGD has none of, and adds its own.
void write_sgd(const config::OptimizerSection& optimizer, Json& to);

// The plan's optimizer from the name at `path`, with or without a module before it; AdamW where it
// is absent. An optimizer that a plan does not have is lost. `arguments`: where its own settings
// are, "optimizer.".
void read_torch_optimizer(PlanBuilder& builder, std::string_view path, std::string_view arguments);
// The same for a name that was read already.
void set_torch_optimizer(PlanBuilder& builder, std::string_view name, std::string_view path,
                         std::string_view arguments);

}  // namespace am::exchange
