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

// The plan's optimizer from such a name, with or without a module before it; a note where it has
// none. `arguments`: the path of SGD's in the source, "optimizer.".
void read_torch_optimizer(PlanBuilder& builder, std::string_view name, std::string_view arguments);

}  // namespace am::exchange
