// The names that PyTorch's tools give to what a nested state holds, as those of a TensorSource:
//
//   model.FQN                      FQN, where a "model" (or "state_dict") lies beside other states
//   optim.state.FQN.exp_avg        the same; torchtitan's optimizer.state... too
//   layers.0._orig_mod.w           without what wrappers add
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "am/formats/dcp_metadata.h"
#include "am/formats/pickle.h"

namespace am::stored {

struct StateKey {
  std::string name;
  bool parameter = true;  // else of an optimizer's or a trainer's state
};

// Whether what lies below this key of a nested state is a model's.
bool is_model_root(std::string_view root);

// `name`: the flat key. `root`: the first key of its path, empty where it is not nested. `nested`:
// the state has a model's root, so that what lies beside it is no parameter.
StateKey state_key(const std::string& name, std::string_view root, bool nested);

// The other way: where PyTorch's tools expect a parameter, and "optim.state.FQN.exp_avg".
formats::DcpPath parameter_path(const std::string& name);
formats::DcpPath state_path(std::string_view name);

// Throws Error(kFormat): a file that names what PyTorch would run is not read.
[[noreturn]] void refuse_alarm(const std::filesystem::path& path,
                               const formats::PickleGlobal& alarm);

}  // namespace am::stored
