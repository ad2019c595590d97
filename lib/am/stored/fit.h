// Checks whether stored weights match a model. Mismatches are missing tensors, tensors with another
// shape, quantised tensors, and tensors that the model does not have. Three kinds of stored tensors
// are ignored: buffers that transformers recomputes, layers for multi-token prediction, and a head
// that the model ties to the embedding.
#pragma once

#include <string>
#include <vector>

#include "am/layout/layout.h"
#include "am/model/config.h"
#include "am/stored/tensor_source.h"

namespace am::stored {

// Throws Error(kFormat) if there are mismatches, or if the config.json of Hugging Face weights
// marks the weights as quantised. The message lists the first mismatches. `source` must use the
// hub's names (hub_names.h).
void check_fit(const layout::Layout& layout, const model::ModelConfig& config,
               const TensorSource& source);

// A mismatch: a parameter that is missing or differs from the model's, or a tensor that the model
// does not have.
struct Misfit {
  std::string name;
  std::string what;  // description of the mismatch, for example "is missing"
};
// Returns the mismatches: first the model's parameters that are missing or differ, then additional
// tensors. Compares names, shapes and dtypes without reading values. `source` must use the hub's
// names.
std::vector<Misfit> find_misfits(const layout::Layout& layout, const model::ModelConfig& config,
                                 const TensorSource& source);

// Returns whether the source contains any parameter of the model's adapters. `source` must use the
// hub's names.
bool has_stored_adapters(const model::Inventory& inventory, const TensorSource& source);

// Returns whether values of this dtype are weights rather than codes of a quantised model.
bool holds_values(formats::Dtype dtype);

}  // namespace am::stored
