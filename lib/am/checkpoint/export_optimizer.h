// Finds the optimizer states and settings that an export writes beside the parameters.
//
//   const ExportedOptimizer optimizer = framework_optimizer(source, parameters, table);
//   optimizer.states[0].tensor;      // exp_avg of the framework's wq: rows of the hub's q_proj
//   optimizer.groups[0].settings;    // lr, betas, eps, ..
//
// A state of a framework's tensor is assembled as the tensor is: from the states of the same
// Hugging Face parameters, in the same rows. This is exact, because the conversion only reorders
// rows and changes no values.
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
  std::vector<ValueGroup> groups;  // with the names of the export's parameters
  // Facts for the user, for example that the checkpoint has no settings.
  std::vector<std::string> notes;

  // Returns the number of updates, if it is known and the same for all parameters.
  std::optional<double> common_steps() const;
};

// Returns all optimizer states of `source` with their stored names, and the settings of its groups.
// Throws Error(kFormat) if there are neither states nor settings, or if a parameter lacks states
// that other parameters of its group have.
ExportedOptimizer stored_optimizer(const stored::TensorSource& source);

// Returns the states of AdamW for `parameters`, the framework's tensors that consist of the
// source's parameters. Parameters that no group names are frozen and have no states. Throws
// Error(kFormat), which names the first parameter, if a state is missing or another optimizer has
// written it, or if settings that AdamW needs are missing or differ between the parts of one of the
// framework's tensors.
ExportedOptimizer framework_optimizer(const stored::TensorSource& source,
                                      const std::vector<FilledTensor>& parameters,
                                      const frameworks::NameTable& table);

}  // namespace am::checkpoint
