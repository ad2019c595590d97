// Names of the tensors of a saved state, derived identically for all file formats: safetensors,
// torch.save, DCP.
//
//   {"app": {"model": {"_orig_mod.norm.weight": ..}}}    norm.weight
//   {"optimizer": {"state": {"module.w": {"exp_avg"}}}}  optim.state.w.exp_avg
//
// A state's dict of parameters is found under the keys that trainers use ("model", "state_dict",
// "model_state_dict", "module"), at the top level or one dict further in; tensors beside it are not
// parameters. Components added by wrappers are removed from names: _orig_mod of torch.compile,
// _checkpoint_wrapped_module and _fsdp_wrapped_module anywhere, and at the beginning the "module."
// of DDP and the second "model." of a LightningModule.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "am/formats/dcp_metadata.h"
#include "am/formats/pickle.h"

namespace am::stored {

// Keys that lead to a tensor, from the outermost to the innermost. A flat state has one key per
// tensor.
using KeyPath = std::vector<std::string>;

struct StateKey {
  std::string name;
  bool parameter = true;  // otherwise optimizer or trainer state
};

// Returns the tensors' names in a TensorSource, in the order of `paths`; names may repeat.
std::vector<StateKey> name_state(const std::vector<KeyPath>& paths);

// The inverse: the paths that PyTorch's tools expect for a parameter and for
// "optim.state.FQN.exp_avg".
formats::DcpPath parameter_path(const std::string& name);
formats::DcpPath state_path(std::string_view name);

// Throws Error(kFormat): files with globals that PyTorch would execute are not read.
[[noreturn]] void refuse_alarm(const std::filesystem::path& path,
                               const formats::PickleGlobal& alarm);

}  // namespace am::stored
