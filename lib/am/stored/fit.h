// Checks whether stored weights match a model. Mismatches are missing tensors, other shapes or
// dtypes, and tensors that the model does not have; but stored buffers that transformers
// recomputes, and stored layers of multi-token prediction, are ignored.
#pragma once

#include <string>
#include <vector>

#include "am/layout/layout.h"
#include "am/model/config.h"
#include "am/stored/tensor_source.h"

namespace am::stored {

// Throws Error(kFormat), which lists the mismatches, if there are any. `source` must have the hub's
// names for parameters (hub_names.h).
void check_fit(const layout::Layout& layout, const model::ModelConfig& config,
               const TensorSource& source);

// A parameter that is missing or differs from the model's, or a tensor that the model does not
// have.
struct Misfit {
  std::string name;
  std::string what;  // description of the mismatch, for example "is missing"
};
// Returns the mismatches as a list, the model's parameters first. Compares names, shapes and dtypes
// without reading values.
std::vector<Misfit> find_misfits(const layout::Layout& layout, const model::ModelConfig& config,
                                 const TensorSource& source);

// Returns whether values of this dtype are weights rather than codes of a quantised model.
bool holds_values(formats::Dtype dtype);

}  // namespace am::stored
