// Names of the tensors of a saved state, in all files alike: safetensors, torch.save, DCP.
//
//   {"app": {"model": {"_orig_mod.norm.weight": ..}}}    norm.weight
//   {"optimizer": {"state": {"module.w": {"exp_avg"}}}}  optim.state.w.exp_avg
//
// A state's dict of parameters is found under the keys that trainers use ("model", "state_dict",
// "model_state_dict", "module"), at the top or one dict further in; tensors beside it are no
// parameters. Names lose the components that wrappers add (_orig_mod of torch.compile,
// _checkpoint_wrapped_module, _fsdp_wrapped_module), and in front of all the "module." of DDP and
// the second "model." of a LightningModule.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "am/formats/dcp_metadata.h"
#include "am/formats/pickle.h"

namespace am::stored {

// Keys that lead to a tensor, from outside to inside. A flat state has one key a tensor.
using KeyPath = std::vector<std::string>;

struct StateKey {
  std::string name;
  bool parameter = true;  // else of an optimizer's or a trainer's state
};

// The tensors' names in a TensorSource, in the order of `paths`. Two may be equal.
std::vector<StateKey> name_state(const std::vector<KeyPath>& paths);

// The other way: where PyTorch's tools expect a parameter, and "optim.state.FQN.exp_avg".
formats::DcpPath parameter_path(const std::string& name);
formats::DcpPath state_path(std::string_view name);

// Throws Error(kFormat): a file that names what PyTorch would run is not read.
[[noreturn]] void refuse_alarm(const std::filesystem::path& path,
                               const formats::PickleGlobal& alarm);

}  // namespace am::stored
