// Derives the names of a saved state's tensors from their dict keys. safetensors, torch.save and
// DCP files use the same rules. Two examples of keys and the names derived from them:
//
//   {"app": {"model": {"_orig_mod.norm.weight": ..}}}    norm.weight
//   {"optimizer": {"state": {"module.w": {"exp_avg"}}}}  optim.state.w.exp_avg
//
// The dict of parameters is found under the keys that trainers use ("model", "state_dict",
// "model_state_dict", "module"), at the top level or inside one other dict; tensors outside of this
// dict are not parameters. Components that wrappers add to names are removed: _orig_mod of
// torch.compile, _checkpoint_wrapped_module and _fsdp_wrapped_module anywhere, and at the beginning
// prefixes such as the "module." of DDP and the second "model." of a LightningModule.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "am/formats/dcp_metadata.h"
#include "am/formats/pickle.h"

namespace am::stored {

// The dict keys that lead to a tensor, outermost first. In a flat state, a tensor has one key.
using KeyPath = std::vector<std::string>;

struct StateKey {
  std::string name;
  bool parameter = true;  // false: optimizer state or trainer state
};

// Returns for each of the `paths` the name that the tensor has in a TensorSource. Different paths
// may have the same name.
std::vector<StateKey> name_state(const std::vector<KeyPath>& paths);

// Returns the name without the components that wrappers of modules insert, such as "_orig_mod.".
std::string without_wrappers(std::string name);

// Return the dict keys under which PyTorch's tools expect a parameter, or an optimizer state whose
// name has the form "optim.state.NAME.exp_avg".
formats::DcpPath parameter_path(const std::string& name);
formats::DcpPath state_path(std::string_view name);

// Throws Error(kFormat). The message names the file, and the function in its pickle that PyTorch
// would call and that may run code.
[[noreturn]] void refuse_alarm(const std::filesystem::path& path,
                               const formats::PickleGlobal& alarm);

}  // namespace am::stored
