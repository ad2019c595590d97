// Reads the settings of the optimizer from a checkpoint of any format: torch.optim's param_groups,
// and the number of updates.
//
//   for (const SettingsGroup& group : read_settings_groups(*source)) {
//     formats::number_setting(group.settings, "lr");   // 3e-4
//     group.parameters;                                // {"model.norm.weight", ..}
//   }
//
// Settings are found in these places:
//
//   optim.param_groups.0.lr, optim.param_groups.0.params    the nested form: PyTorch's
//                                                           get_optimizer_state_dict
//   optimizer.param_groups.NAME.lr                          the flattened form: torchtitan
//   optimizer.param_to_group_meta.NAME.lr                   Megatron-FSDP
//   optimizer in common.pt or common_state                  Megatron's torch_dist, whose groups do
//                                                           not name their parameters
//   .metadata of am-run's checkpoints                       the nested and the flattened form
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "am/formats/setting_value.h"
#include "am/stored/tensor_source.h"

namespace am::frameworks {

// Parameters that have equal settings. `parameters` contains their names in the TensorSource.
struct SettingsGroup {
  formats::Settings settings;
  std::vector<std::string> parameters;
};

// Adds a parameter to the group with exactly these settings. Appends the group if it is missing.
void add_to_groups(std::vector<SettingsGroup>& groups, const formats::Settings& settings,
                   const std::string& parameter);

// Returns the stored settings of the parameters that the optimizer updates, one group for equal
// settings, in the order of the source's parameters. Returns no groups if the checkpoint contains
// no settings. Throws Error(kFormat) for a file that cannot be read.
std::vector<SettingsGroup> read_settings_groups(const stored::TensorSource& source);

// Returns the number of updates of a parameter: its stored state "step" or, if there is none, the
// setting "step" in `settings`. Returns nullopt if neither is stored, or if the value is negative
// or at least 1e15. `settings`: the settings of the parameter's group; null: unknown.
std::optional<double> updates_of(const stored::TensorSource& source, const std::string& parameter,
                                 const formats::Settings* settings);

}  // namespace am::frameworks
