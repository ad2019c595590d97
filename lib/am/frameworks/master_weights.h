// Megatron's optimizer keeps a float32 copy of each parameter, the master weight, which it updates;
// the model's own weight is the master rounded to bfloat16. Resumed jobs go on from the master.
#pragma once

#include <memory>

#include "am/stored/tensor_source.h"

namespace am::frameworks {

// Returns a view of a checkpoint of Megatron in which the values of each parameter that has a
// master weight are those of the master. optimizer_tensors() does not contain the masters. Returns
// null for other sources. `source` must outlive the view. Throws Error(kFormat) if a master weight
// has another shape than its parameter.
std::unique_ptr<stored::TensorSource> with_master_weights(const stored::TensorSource& source);

}  // namespace am::frameworks
