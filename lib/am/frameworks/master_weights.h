// Master weights in checkpoints of Megatron. For each 16-bit parameter, Megatron's optimizer keeps
// and updates a float32 copy, the master weight; the parameter itself is the rounded master weight.
// A resumed job must start from the master weights.
#pragma once

#include <memory>

#include "am/stored/tensor_source.h"

namespace am::frameworks {

// Returns a source that reads the master weight instead of each parameter that has one.
// optimizer_tensors() of the result does not contain the master weights. Returns null unless
// `source` is a checkpoint of Megatron. `source` must outlive the result. Throws Error(kFormat) if
// the shapes of a master weight and its parameter differ.
std::unique_ptr<stored::TensorSource> with_master_weights(const stored::TensorSource& source);

}  // namespace am::frameworks
