// Finds the optimizer states and settings that an export writes beside the parameters.
//
//   const ExportedOptimizer optimizer = framework_optimizer(source, parameters, table);
//   optimizer.states[0].tensor;      // exp_avg of the framework's wq: rows of the hub's q_proj
//   optimizer.groups[0].settings;    // lr, betas, eps, ..
//
// A state of a framework's tensor is assembled like the tensor itself: from the states of the same
// Hugging Face parameters, with the same row order. This is exact, because the conversion only
// reorders rows and changes no values.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "am/checkpoint/filled_tensor.h"
#include "am/checkpoint/optimizer_values.h"
#include "am/stored/tensor_source.h"

namespace am::checkpoint {

struct ExportedState {
  FilledTensor tensor;  // tensor.name is the parameter's name
  std::string state;    // for example "exp_avg"
};

struct ExportedOptimizer {
  std::vector<ExportedState> states;
  std::vector<ValueGroup> groups;  // their `names` are the exported names of parameters
  // Notes for the user, for example that the checkpoint has no settings.
  std::vector<std::string> notes;

  // Returns the number of updates; nullopt if it is unknown or differs between parameters.
  std::optional<double> common_steps() const;
};

// Returns all optimizer states of `source` with their stored names, and the settings of its groups.
// Throws Error(kFormat) if `source` has neither states nor settings, or if a parameter lacks a
// state that the first parameter with states in its group has.
ExportedOptimizer stored_optimizer(const stored::TensorSource& source);

// Returns the states and settings of AdamW for `parameters`, the framework's tensors that are
// assembled from the source's parameters. Omits frozen parameters, which have neither states nor
// settings in the source. Throws Error(kFormat) if a state is missing or is not a state of AdamW,
// if a setting that AdamW needs is missing, or if the parts of one framework tensor differ in their
// states or settings. The message names the first parameter with this problem.
ExportedOptimizer framework_optimizer(const stored::TensorSource& source,
                                      const std::vector<FilledTensor>& parameters,
                                      const frameworks::NameTable& table);

}  // namespace am::checkpoint
