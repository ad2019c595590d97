#include "am/train/foreign_checkpoint.h"

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "am/base/error.h"
#include "am/base/text.h"
#include "am/checkpoint/peft.h"
#include "am/checkpoint/read_tensor.h"
#include "am/checkpoint/weights.h"
#include "am/frameworks/master_weights.h"
#include "am/frameworks/open_weights.h"
#include "am/frameworks/optimizer_settings.h"
#include "am/frameworks/state_name.h"
#include "am/run_folder/shard_index.h"
#include "am/stored/hub_names.h"

namespace am::train {

namespace fs = std::filesystem;

namespace {

using stored::StoredTensor;
using stored::TensorSource;

// A view of the optimizer states of one kind in a source, for example of all exp_avg. The view
// names each state like its parameter, so stored::HubNames finds states in the same way as weights.
class StatesOfKind : public TensorSource {
 public:
  StatesOfKind(const TensorSource& source, const std::string& kind) : source_(source), kind_(kind) {
    for (const StoredTensor& tensor : source.tensors()) {
      const StoredTensor* state = source.find(state_of(tensor.name));
      if (state == nullptr) continue;
      tensors_.push_back(*state);
      tensors_.back().name = tensor.name;
    }
  }

  std::string format() const override { return source_.format(); }
  fs::path path() const override { return source_.path(); }
  const std::vector<StoredTensor>& tensors() const override { return tensors_; }
  const std::vector<StoredTensor>& optimizer_tensors() const override { return none_; }
  fs::path config_file() const override { return source_.config_file(); }
  void read(std::string_view name, const mesh::Box& box,
            const stored::Destination& out) const override {
    source_.read(state_of(name), box, out);
  }
  void prefetch(std::string_view name, const mesh::Box& box) const override {
    source_.prefetch(state_of(name), box);
  }

 private:
  std::string state_of(std::string_view parameter) const {
    return run_folder::state_name(parameter, kind_);
  }

  const TensorSource& source_;
  std::string kind_;
  std::vector<StoredTensor> tensors_, none_;
};

// Returns the number of updates that the optimizer has made; nullopt if this number is not stored.
// Throws Error(kFormat) if the number differs between parameters.
std::optional<int64_t> common_updates(const TensorSource& source,
                                      const std::vector<frameworks::SettingsGroup>& groups) {
  std::map<std::string, const formats::Settings*, std::less<>> settings;
  for (const auto& group : groups) {
    for (const std::string& parameter : group.parameters) settings[parameter] = &group.settings;
  }
  std::optional<double> common;
  std::string first;
  for (const StoredTensor& tensor : source.tensors()) {
    const auto own = settings.find(tensor.name);
    const auto updates =
        frameworks::updates_of(source, tensor.name, own == settings.end() ? nullptr : own->second);
    if (!updates) continue;
    if (!common) first = tensor.name;
    if (common.value_or(*updates) != *updates) {
      throw Error(ErrorKind::kFormat,
                  cat(source.path().string(), ": the optimizer updated ", first, " ",
                      static_cast<int64_t>(*common), " times, but ", tensor.name, " ",
                      static_cast<int64_t>(*updates),
                      " times; am-run keeps one count of updates for all parameters"),
                  cat("model.weights = \"", source.path().string(),
                      "\" starts from these weights, with a new optimizer"));
    }
    common = updates;
  }
  if (!common) return std::nullopt;
  return static_cast<int64_t>(*common);
}

// Whether the optimizer's updates depend on the number of earlier updates, as in Adam through its
// bias correction. True if there are states with the name exp_avg_sq.
bool counts_updates(const TensorSource& source) {
  const auto& states = source.optimizer_tensors();
  return std::any_of(states.begin(), states.end(), [](const StoredTensor& tensor) {
    return ends_with(tensor.name, ".exp_avg_sq");
  });
}

// Returns, under the plan's keys, the settings of the optimizer's parameter group (an entry of
// PyTorch's param_groups) with the most parameters. The weight decay is the largest of all groups.
Json facts_of(const std::vector<frameworks::SettingsGroup>& groups) {
  Json facts = Json::object();
  const auto largest = std::max_element(
      groups.begin(), groups.end(),
      [](const auto& a, const auto& b) { return a.parameters.size() < b.parameters.size(); });
  if (largest == groups.end()) return facts;
  const formats::Settings& settings = largest->settings;
  auto lr = formats::number_setting(settings, "initial_lr");
  if (!lr) lr = formats::number_setting(settings, "lr");
  if (lr) facts["optimizer.lr"] = *lr;
  if (const auto eps = formats::number_setting(settings, "eps")) facts["optimizer.eps"] = *eps;
  const formats::SettingValue* betas = formats::find_setting(settings, "betas");
  const auto* values = betas == nullptr ? nullptr : std::get_if<std::vector<double>>(betas);
  if (values != nullptr) facts["optimizer.betas"] = *values;
  std::optional<double> decay;
  for (const auto& group : groups) {
    const auto own = formats::number_setting(group.settings, "weight_decay");
    if (own) decay = std::max(decay.value_or(*own), *own);
  }
  if (decay) facts["optimizer.weight_decay"] = *decay;
  return facts;
}

}  // namespace

run_folder::CheckpointInfo describe_foreign(const fs::path& path) {
  if (!frameworks::is_tensor_source(path)) {
    throw Error(ErrorKind::kPlan,
                cat(path.string(), ": not a checkpoint: the folder has no ", run_folder::kInfoFile,
                    " of am-run, and no weights of another program"),
                "set checkpoint.resume to \"auto\", \"none\" or the path of a checkpoint");
  }
  const auto source = frameworks::open_tensor_source(path);
  const bool states =
      std::any_of(source->optimizer_tensors().begin(), source->optimizer_tensors().end(),
                  [&](const StoredTensor& tensor) {
                    const auto name = frameworks::split_state(tensor.name);
                    return name && source->find(name->parameter) != nullptr && tensor.numel() > 1;
                  });
  if (!states) {
    throw Error(
        ErrorKind::kPlan,
        cat(path.string(), ": it holds the weights of another program, without optimizer states"),
        cat("model.weights = \"", path.string(),
            "\" starts from these weights, with a new optimizer"));
  }
  const auto groups = frameworks::read_settings_groups(*source);
  const auto updates = common_updates(*source, groups);
  const auto step = source->step();
  if (!updates && !step && counts_updates(*source)) {
    throw Error(ErrorKind::kFormat,
                cat(path.string(),
                    ": Adam and AdamW need the training step or the number of the optimizer's "
                    "updates, but neither is stored"),
                cat("model.weights = \"", path.string(),
                    "\" starts from these weights, with a new optimizer"));
  }
  run_folder::CheckpointInfo info;
  info.step = std::max(step.value_or(0), updates.value_or(0));
  info.skipped_steps = info.step - updates.value_or(info.step);
  info.facts = facts_of(groups);
  return info;
}

void load_foreign(const fs::path& path, parallel::ParallelModel& model,
                  const std::vector<checkpoint::StateTensor>& states) {
  const auto opened = frameworks::open_tensor_source(path);
  const auto masters = frameworks::with_master_weights(*opened);
  const TensorSource& source = masters ? *masters : *opened;
  const model::Inventory& inventory = model.layout().inventory;
  if (!checkpoint::load(model, source) && checkpoint::has_adapters(inventory)) {
    throw Error(ErrorKind::kFormat,
                cat(path.string(), ": the checkpoint has no adapters, but the plan trains some"),
                cat("begin a new run from these weights: model.weights = \"", path.string(), "\""));
  }
  struct Kind {
    std::unique_ptr<StatesOfKind> states;
    std::unique_ptr<stored::HubNames> names;
  };
  std::map<std::string, Kind, std::less<>> kinds;
  for (const checkpoint::StateTensor& state : states) {
    const std::string& parameter = state.parameter->name;
    const std::string name(frameworks::split_state(state.key)->state);
    Kind& kind = kinds[name];
    if (!kind.states) {
      kind.states = std::make_unique<StatesOfKind>(source, name);
      kind.names = std::make_unique<stored::HubNames>(*kind.states, inventory);
    }
    const StoredTensor* tensor = kind.names->find(parameter);
    if (tensor == nullptr) {
      throw Error(
          ErrorKind::kFormat,
          cat(path.string(), ": the checkpoint has no optimizer state ", name, " of ", parameter),
          cat("use the same optimizer as the checkpoint's run, and freeze the same "
              "parameters; or begin a new run from these weights, with model.weights = \"",
              path.string(), "\""));
    }
    if (tensor->shape != state.parameter->shape) {
      throw Error(ErrorKind::kFormat,
                  cat(path.string(), ": the optimizer state ", name, " of ", parameter, " is ",
                      shape_text(tensor->shape), ", but the parameter is ",
                      shape_text(state.parameter->shape)));
    }
    checkpoint::read(*kind.names, parameter, state.parameter->box, state.value);
  }
}

}  // namespace am::train
