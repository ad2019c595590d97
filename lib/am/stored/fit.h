// Whether stored weights are a model's: what is missing, what has another shape or dtype, and what
// the model has no place for. Nothing is taken for something else, and nothing left out in silence.
#pragma once

#include <string>
#include <vector>

#include "am/model/config.h"
#include "am/planner/layout.h"
#include "am/stored/tensor_source.h"

namespace am::stored {

// Throws Error(kFormat) that lists what does not fit. `source` has parameters under the hub's names
// (hub_names.h).
void check_fit(const planner::Layout& layout, const model::ModelConfig& config,
               const TensorSource& source);

// A parameter that is not as the model has it, or a tensor that it has no place for.
struct Misfit {
  std::string name;
  std::string what;  // "is missing"
};
// The same as a list, the model's parameters first. Names and shapes alone are looked at.
std::vector<Misfit> find_misfits(const planner::Layout& layout, const model::ModelConfig& config,
                                 const TensorSource& source);

// Whether values of this dtype are numbers of a model, not codes of a quantised one.
bool holds_values(formats::Dtype dtype);

}  // namespace am::stored
