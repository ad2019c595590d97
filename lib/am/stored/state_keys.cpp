#include "am/stored/state_keys.h"

#include <algorithm>
#include <array>

#include "am/base/error.h"
#include "am/base/text.h"
#include "am/run_folder/shard_index.h"

namespace am::stored {

namespace {

// What wrappers put between the components of a module's name.
constexpr std::array<std::string_view, 3> kWrappers = {"_orig_mod.", "_checkpoint_wrapped_module.",
                                                       "_fsdp_wrapped_module."};

std::string without_wrappers(std::string name) {
  for (const std::string_view wrapper : kWrappers) {
    for (size_t at = name.find(wrapper); at != std::string::npos; at = name.find(wrapper, at)) {
      const bool component = at == 0 || name[at - 1] == '.';
      if (component) {
        name.erase(at, wrapper.size());
      } else {
        at += wrapper.size();
      }
    }
  }
  return name;
}

// What torchtitan's trainer saves beside parameters, which have no prefix there.
constexpr std::array<std::string_view, 3> kTrainerStates = {"lr_scheduler.", "train_state.",
                                                            "dataloader."};

}  // namespace

bool is_model_root(std::string_view root) { return root == "model" || root == "state_dict"; }

StateKey state_key(const std::string& name, std::string_view root, bool nested) {
  for (const std::string_view prefix : {"optim.", "optimizer."}) {
    if (!starts_with(name, prefix)) continue;
    return {without_wrappers(cat("optim.", name.substr(prefix.size()))), false};
  }
  if (nested && is_model_root(root)) return {without_wrappers(name.substr(root.size() + 1))};
  const bool trainers =
      std::any_of(kTrainerStates.begin(), kTrainerStates.end(),
                  [&](std::string_view prefix) { return starts_with(name, prefix); });
  return {without_wrappers(name), !nested && !trainers};
}

formats::DcpPath parameter_path(const std::string& name) { return {"model", name}; }

formats::DcpPath state_path(std::string_view name) {
  const std::string_view inner = name.substr(std::string_view(run_folder::kOptimizerPrefix).size());
  const size_t dot = std::min(inner.rfind('.'), inner.size());
  return {"optim", "state", std::string(inner.substr(0, dot)),
          std::string(inner.substr(std::min(dot + 1, inner.size())))};
}

void refuse_alarm(const std::filesystem::path& path, const formats::PickleGlobal& alarm) {
  throw Error(ErrorKind::kFormat,
              cat(path.string(), ": byte ", alarm.position, " names ", alarm.module, ".",
                  alarm.name, ", which PyTorch would call"),
              "do not load it with PyTorch either; fetch it from where you trust");
}

}  // namespace am::stored
