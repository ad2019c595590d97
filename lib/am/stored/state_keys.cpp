#include "am/stored/state_keys.h"

#include <algorithm>
#include <array>
#include <set>

#include "am/base/error.h"
#include "am/base/text.h"
#include "am/run_folder/shard_index.h"

namespace am::stored {

namespace {

constexpr std::array<std::string_view, 8> kOptimizers = {"optim",
                                                         "optimizer",
                                                         "optimizers",
                                                         "optimizer_state",
                                                         "optimizer_states",
                                                         "optim_state_dict",
                                                         "optimizer_state_dict",
                                                         "optim_state"};
constexpr std::array<std::string_view, 4> kModels = {"model", "state_dict", "model_state_dict",
                                                     "module"};
// Maximum number of keys that lead to the dict of a model or an optimizer: two, as in {"app":
// {"model": ..}}.
constexpr size_t kDeepestRoot = 2;

// Components that wrappers of modules insert anywhere in parameter names.
constexpr std::array<std::string_view, 3> kWrappers = {"_orig_mod.", "_checkpoint_wrapped_module.",
                                                       "_fsdp_wrapped_module."};
// Prefixes that DDP, DeepSpeed, Lightning's Fabric, and trainers that save a flat dict add to all
// parameter names of a file.
constexpr std::array<std::string_view, 4> kInFront = {"module.", "_forward_module.",
                                                      "model_state_dict.", "state_dict."};

// Prefixes of the names of torchtitan's trainer states. torchtitan stores these states next to the
// parameters, whose names have no prefix.
constexpr std::array<std::string_view, 3> kTrainerStates = {"lr_scheduler.", "train_state.",
                                                            "dataloader."};

bool among(const auto& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

bool starts_with_one(std::string_view name, const auto& prefixes) {
  return std::any_of(prefixes.begin(), prefixes.end(),
                     [&](std::string_view prefix) { return starts_with(name, prefix); });
}

enum class Holder : uint8_t { kModel, kOptimizer, kOther };

struct Root {
  Holder holder = Holder::kOther;
  size_t keys = 0;  // number of leading keys of a path, up to the dict of the model or optimizer
};

Root root_of(const KeyPath& path) {
  const size_t dicts = std::min(path.size() - 1, kDeepestRoot);
  for (size_t i = 0; i < dicts; ++i) {
    if (among(kOptimizers, path[i])) return {Holder::kOptimizer, i + 1};
    if (among(kModels, path[i])) return {Holder::kModel, i + 1};
  }
  return {};
}

std::string joined(const KeyPath& path, size_t first) {
  std::string name;
  for (size_t i = first; i < path.size(); ++i) {
    if (i > first) name += '.';
    name += path[i];
  }
  return name;
}

// Returns whether the name of a tensor outside of the models' dicts consists of a prefix and the
// name of a tensor in one of these dicts. The state then contains another model, for example "net"
// in {"net": .., "ema": {"model": ..}}.
bool has_rival(const std::vector<KeyPath>& paths, const std::vector<Root>& roots) {
  std::set<std::string> names;
  for (size_t i = 0; i < paths.size(); ++i) {
    if (roots[i].holder == Holder::kModel) names.insert(joined(paths[i], roots[i].keys));
  }
  for (size_t i = 0; i < paths.size(); ++i) {
    if (roots[i].holder != Holder::kOther) continue;
    std::string name = joined(paths[i], 0);
    while (!names.contains(name)) {
      const size_t dot = name.find('.');
      if (dot == std::string::npos) break;
      name.erase(0, dot + 1);
    }
    if (names.contains(name)) return true;
  }
  return false;
}

// Returns for each path the dict to which its tensor belongs. A model's dict inside of another dict
// counts only if the state contains no other model. For example, the model's dict counts in
// {"app": {"model": ..}}, but not in {"teacher": {"model": ..}, "student": {"model": ..}}.
std::vector<Root> roots_of(const std::vector<KeyPath>& paths) {
  std::vector<Root> roots;
  roots.reserve(paths.size());
  for (const KeyPath& path : paths) roots.push_back(root_of(path));
  std::set<std::string> models;
  for (size_t i = 0; i < paths.size(); ++i) {
    if (roots[i].holder != Holder::kModel) continue;
    models.insert(roots[i].keys == 1 ? std::string() : cat(paths[i][0], ".", paths[i][1]));
  }
  const bool inside = models.size() == 1 && !models.begin()->empty();
  if (models.size() < 2 && !(inside && has_rival(paths, roots))) return roots;
  for (Root& root : roots) {
    if (root.holder == Holder::kModel && root.keys > 1) root = {};
  }
  return roots;
}

// Converts the flat key of an optimizer state to its name, for example "optimizer.state.w.exp_avg"
// to "optim.state.w.exp_avg". Returns an empty text for other keys.
std::string flat_optimizer_name(const std::string& name) {
  for (const std::string_view prefix : {"optim.", "optimizer."}) {
    if (starts_with(name, prefix)) return cat("optim.", name.substr(prefix.size()));
  }
  return {};
}

// Returns the longest prefix that wrappers have added to all parameter names. The prefix may
// consist of the prefixes of several wrappers.
std::string common_prefix(const std::vector<StateKey>& keys) {
  std::string prefix;
  const auto all_begin = [&](const std::string& with) {
    bool any = false;
    for (const StateKey& key : keys) {
      if (!key.parameter) continue;
      if (!starts_with(key.name, with)) return false;
      any = true;
    }
    return any;
  };
  for (bool longer = true; longer;) {
    longer = false;
    for (const std::string_view component : kInFront) {
      if (!all_begin(cat(prefix, component))) continue;
      prefix += component;
      longer = true;
    }
  }
  // A LightningModule that stores the model in its attribute `model` adds a second "model." in
  // front of names that begin with "model." already.
  const std::string twice = cat(prefix, "model.model.");
  const bool nested_model = std::any_of(keys.begin(), keys.end(), [&](const StateKey& key) {
    return key.parameter && starts_with(key.name, twice);
  });
  if (nested_model && all_begin(cat(prefix, "model."))) prefix += "model.";
  return prefix;
}

}  // namespace

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

std::vector<StateKey> name_state(const std::vector<KeyPath>& paths) {
  const std::vector<Root> roots = roots_of(paths);
  const bool nested = std::any_of(roots.begin(), roots.end(),
                                  [](const Root& root) { return root.holder == Holder::kModel; });
  std::vector<StateKey> keys;
  keys.reserve(paths.size());
  for (size_t i = 0; i < paths.size(); ++i) {
    const std::string name = joined(paths[i], roots[i].keys);
    if (roots[i].holder == Holder::kModel) {
      keys.push_back({without_wrappers(name)});
    } else if (roots[i].holder == Holder::kOptimizer) {
      keys.push_back({without_wrappers(cat("optim.", name)), false});
    } else if (std::string state = flat_optimizer_name(name); !state.empty()) {
      keys.push_back({without_wrappers(std::move(state)), false});
    } else {
      const bool parameter = !nested && !starts_with_one(name, kTrainerStates);
      keys.push_back({without_wrappers(name), parameter});
    }
  }
  const std::string prefix = common_prefix(keys);
  if (prefix.empty()) return keys;
  const std::string state_prefix = cat(run_folder::kOptimizerPrefix, prefix);
  for (StateKey& key : keys) {
    if (key.parameter) {
      key.name.erase(0, prefix.size());
    } else if (starts_with(key.name, state_prefix)) {
      key.name.erase(std::string_view(run_folder::kOptimizerPrefix).size(), prefix.size());
    }
  }
  return keys;
}

formats::DcpPath parameter_path(const std::string& name) { return {"model", name}; }

formats::DcpPath state_path(std::string_view name) {
  const std::string_view inner = name.substr(std::string_view(run_folder::kOptimizerPrefix).size());
  const size_t dot = std::min(inner.rfind('.'), inner.size());
  return {"optim", "state", std::string(inner.substr(0, dot)),
          std::string(inner.substr(std::min(dot + 1, inner.size())))};
}

void refuse_alarm(const std::filesystem::path& path, const formats::PickleGlobal& alarm) {
  throw Error(
      ErrorKind::kFormat,
      cat(path.string(), ": byte ", alarm.position, " names ", alarm.module, ".", alarm.name,
          ": torch.load would call this function, which may run code"),
      "do not load the file with PyTorch either; fetch the weights from a source that you trust");
}

}  // namespace am::stored
