// Builds the optimizer for a plan's section [optimizer] and a model's parameters.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "am/config/plan.h"
#include "am/optim/elementwise.h"
#include "am/optim/optimizer.h"
#include "am/parallel/parallel_model.h"

namespace am::optim {

// Returns the options of elementwise updates. The options apply to all parameters or, with name =
// "muon", only to the parameters that Muon does not update. `offloaded`: parameters are in host
// memory while a GPU computes.
ElementwiseOptions elementwise_options(const config::OptimizerSection& optimizer, bool offloaded);

// Returns the optimizer of all trainable parameters of `model`, which must outlive the optimizer.
std::unique_ptr<Optimizer> make_optimizer(const config::Plan& plan,
                                          const parallel::ParallelModel& model);

// Returns the optimizer's state tensors for the parameter model.groups()[g]->owned()[i]. Each state
// tensor is a view with the shape of this rank's box of the parameter, without padding. Empty if
// the parameter is frozen.
std::vector<StateTensor> parameter_state(const Optimizer& optimizer,
                                         const parallel::ParallelModel& model, size_t g, size_t i);

}  // namespace am::optim
