// Derives the names of a saved state's tensors from their keys, in the same way for all file
// formats: safetensors, torch.save and DCP. Two examples of keys and the names derived from them:
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
  bool parameter = true;  // whether the tensor is a parameter; if not, optimizer or trainer state
};

// Returns the names that a TensorSource gives to the tensors at `paths`, in the same order. Names
// may repeat.
std::vector<StateKey> name_state(const std::vector<KeyPath>& paths);

// Return the keys under which PyTorch's tools expect a parameter, and an optimizer state with a
// name like "optim.state.FQN.exp_avg".
formats::DcpPath parameter_path(const std::string& name);
formats::DcpPath state_path(std::string_view name);

// Throws Error(kFormat), which names the file and the pickle global in it that PyTorch would
// execute.
[[noreturn]] void refuse_alarm(const std::filesystem::path& path,
                               const formats::PickleGlobal& alarm);

}  // namespace am::stored
