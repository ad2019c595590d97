// Megatron's optimizer keeps a float32 copy of each parameter, the master weight, which it updates;
// the model's own weight is the master rounded to bfloat16. Training goes on from the master.
#pragma once

#include <memory>
#include <string_view>

#include "am/stored/tensor_source.h"

namespace am::frameworks {

// Returns whether a state of Megatron's optimizer, for example "fp32_param", is the master weight.
bool is_master_weight(const stored::TensorSource& source, std::string_view state);

// Returns a view of `source` in which the values of each parameter that has a master weight are
// those of the master. optimizer_tensors() lacks the masters. A source without master weights is
// unchanged. `source` must outlive the view.
std::unique_ptr<stored::TensorSource> with_master_weights(const stored::TensorSource& source);

}  // namespace am::frameworks
