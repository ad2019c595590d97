// Computes torch.optim's param_groups and step counts for a plan's optimizer. PyTorch requires
// these values, besides the tensors, to load a checkpoint. Each setting is stored under a nested
// name and under a flattened name:
//
//   optim.param_groups.0.betas                   nested, as from get_optimizer_state_dict
//   optim.param_groups.model.norm.weight.betas   flattened
//   optim.state.model.norm.weight.step           step count: float32 tensor without dims
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "am/config/plan.h"
#include "am/formats/dcp_metadata.h"
#include "am/formats/setting_value.h"
#include "am/layout/layout.h"

namespace am::checkpoint {

// Settings of the optimizer that is saved, and its progress.
struct SavedOptimizer {
  config::OptimizerSection section;
  double lr = 0.0;    // learning rate of the last step
  int64_t steps = 0;  // number of updates so far
  // Value of optimizer.lr from which the learning rates in the layout were computed; empty:
  // section.lr.
  std::optional<double> peak = {};
};

// Settings and step counts as torch.save archives, and the entries of `.metadata` that refer to the
// archives. Equal values share one archive.
struct OptimizerValues {
  std::vector<std::string> slices;
  // Entries of `.metadata`. slice.file is not yet a file number: it is the index of the archive in
  // `slices`, until append_values() sets the location in the data file. Each tensor has one chunk.
  std::vector<formats::DcpValue> values;
  std::vector<formats::DcpTensor> tensors;
};

// Returns the values of the optimizer for the trainable parameters of `layout`.
OptimizerValues optimizer_values(const SavedOptimizer& optimizer, const layout::Layout& layout);

// Appends the entries of `values` to `metadata`. places[i] is the location of the archive
// values.slices[i] in the data files.
void append_values(formats::DcpMetadata& metadata, const OptimizerValues& values,
                   const std::vector<formats::DcpSlice>& places);

// Names and dict keys under which a checkpoint stores an optimizer's states and settings.
struct OptimizerKeys {
  std::string root = "optim";
  // True: {"optim", "state", NAME, "exp_avg"}; false: {"optim", "state.NAME.exp_avg"}.
  bool nested_states = true;
  // True: settings also have the keys {"optim", "param_groups", 0, "lr"}.
  bool nested_groups = true;

  std::string state_name(std::string_view parameter, std::string_view state) const;
  formats::DcpPath state_path(const std::string& parameter, const std::string& state) const;
};

// Parameters with equal settings.
struct ValueGroup {
  formats::Settings settings;
  std::vector<std::string> names;
  std::vector<double> steps;  // number of updates of each parameter; empty: not counted
};
// Returns the settings and step counts of the groups, with names according to `keys`.
OptimizerValues group_values(const std::vector<ValueGroup>& groups, const OptimizerKeys& keys);

}  // namespace am::checkpoint
