// Lets am-repl attach to a program that trains a sharded torch module.
//
//   Program program(world, options, tensors_of(sharded, &optimizer));    // every rank
//   if (program.step(steps)) program.visit(tensors_of(sharded, &optimizer), numbers);
#pragma once

#include <vector>

#include "am/parallel/module/sharded_module.h"
#include "am/values/program_tensors.h"

namespace torch::optim {
class Optimizer;
}

namespace am::live {

// Returns this rank's parts of the module's parameters, buffers and gradients and, if `optimizer`
// is not null, of the optimizer's states. Reshards the module's units. Throws Error(kUsage) for an
// optimizer that is not Adam, AdamW or SGD. Must be called again after each step, because the
// memory of gradients changes.
std::vector<values::ProgramTensor> tensors_of(parallel::ShardedModule& module,
                                              const torch::optim::Optimizer* optimizer = nullptr);

}  // namespace am::live
