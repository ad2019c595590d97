#include "am/checkpoint/optimizer_values.h"

#include <algorithm>
#include <map>
#include <utility>

#include "am/base/text.h"
#include "am/config/optimizer.h"
#include "am/formats/torch_slice.h"

namespace am::checkpoint {

namespace {

using formats::DcpPath;

// Returns the settings of one of torch.optim's param_groups, with the keys and types of PyTorch
// 2.11. `orthogonalized`: the settings of Muon.
formats::Settings settings_of(const SavedOptimizer& optimizer, bool orthogonalized,
                              const layout::OptimizerOptions& options) {
  const config::OptimizerSection& section = optimizer.section;
  const double peak = optimizer.peak.value_or(section.lr);
  const double lr = config::parameter_lr(optimizer.lr, peak, options.lr);
  const double initial = config::parameter_lr(section.lr, peak, options.lr);
  const double decay = options.weight_decay;
  const double momentum = config::momentum_of(section);
  if (orthogonalized) {
    const formats::SettingValue adjust =
        section.adjust_lr == "original" ? formats::SettingValue() : section.adjust_lr;
    return {{"lr", lr},
            {"initial_lr", initial},
            {"weight_decay", decay},
            {"momentum", momentum},
            {"nesterov", config::nesterov_of(section)},
            {"ns_coefficients", std::vector<double>{3.4445, -4.7750, 2.0315}},
            {"eps", 1e-7},
            {"ns_steps", int64_t{5}},
            {"adjust_lr_fn", adjust}};
  }
  if (section.name == "sgd") {
    return {{"lr", lr},
            {"initial_lr", initial},
            {"momentum", momentum},
            {"dampening", 0.0},
            {"weight_decay", decay},
            {"nesterov", config::nesterov_of(section)},
            {"maximize", false},
            {"foreach", formats::SettingValue()},
            {"differentiable", false},
            {"fused", formats::SettingValue()}};
  }
  return {{"lr", lr},
          {"initial_lr", initial},
          {"betas", std::vector<double>{section.betas[0], section.betas[1]}},
          {"eps", section.eps},
          {"weight_decay", decay},
          {"amsgrad", false},
          {"maximize", false},
          {"foreach", formats::SettingValue()},
          {"capturable", false},
          {"differentiable", false},
          {"fused", formats::SettingValue()},
          {"decoupled_weight_decay", section.name != "adam"}};
}

struct LayoutGroup {
  bool orthogonalized = false;
  layout::OptimizerOptions options;
  std::vector<std::string> names;
};

// Returns the trainable parameters in groups with equal settings. Muon's groups precede AdamW's.
// For each optimizer, groups with weight decay precede groups without it.
std::vector<LayoutGroup> groups_of(const layout::Layout& layout) {
  std::vector<LayoutGroup> groups;
  for (const layout::ParameterLayout& each : layout.parameters) {
    if (!each.trainable) continue;
    auto group = std::find_if(groups.begin(), groups.end(), [&](const LayoutGroup& known) {
      return known.orthogonalized == each.orthogonalized && known.options == each.optimizer;
    });
    if (group == groups.end()) {
      group = groups.insert(group, {each.orthogonalized, each.optimizer, {}});
    }
    group->names.push_back(each.name);
  }
  std::stable_sort(groups.begin(), groups.end(), [](const LayoutGroup& a, const LayoutGroup& b) {
    const auto key = [](const LayoutGroup& group) {
      return std::pair(!group.orthogonalized, group.options.weight_decay == 0.0);
    };
    return key(a) < key(b);
  });
  return groups;
}

class ValuesBuilder {
 public:
  explicit ValuesBuilder(const OptimizerKeys& keys) : keys_(keys) {}

  void add_group(const ValueGroup& group) {
    const int64_t number = groups_++;
    for (const auto& [key, value] : group.settings) {
      const uint32_t slice = slice_of(value);
      if (keys_.nested_groups) add_to_group(number, key, slice);
      for (const std::string& name : group.names) {
        const std::string inner = cat("param_groups.", name, ".", key);
        add(cat(keys_.root, ".", inner), {keys_.root, inner}, slice);
      }
    }
    if (keys_.nested_groups) add_to_group(number, "params", slice_of(group.names));
    uint32_t slice = 0;
    for (size_t i = 0; i < group.steps.size(); ++i) {
      // Building an archive is slow, and most parameters have the same number of steps.
      if (i == 0 || group.steps[i] != group.steps[i - 1]) slice = steps_slice(group.steps[i]);
      formats::DcpTensor tensor;
      tensor.name = keys_.state_name(group.names[i], "step");
      tensor.path = keys_.state_path(group.names[i], "step");
      tensor.dtype = "float32";
      tensor.chunks.push_back({{}, {}, {slice, 0, result_.slices[slice].size()}});
      result_.tensors.push_back(std::move(tensor));
    }
  }

  OptimizerValues finish() && { return std::move(result_); }

 private:
  void add_to_group(int64_t number, const std::string& key, uint32_t slice) {
    add(cat(keys_.root, ".param_groups.", number, ".", key),
        {keys_.root, "param_groups", number, key}, slice);
  }
  void add(std::string name, DcpPath path, uint32_t slice) {
    result_.values.push_back(
        {std::move(name), std::move(path), {slice, 0, result_.slices[slice].size()}});
  }

  uint32_t slice_of(const formats::SettingValue& value) {
    return slice_of_bytes(formats::setting_archive(value));
  }
  uint32_t slice_of_bytes(std::string bytes) {
    const auto [place, fresh] =
        places_.emplace(std::move(bytes), static_cast<uint32_t>(result_.slices.size()));
    if (fresh) result_.slices.push_back(place->first);
    return place->second;
  }
  uint32_t steps_slice(double number) {
    const auto steps = static_cast<float>(number);
    const formats::TorchSlice slice = formats::tensor_slice("float32", {}, 0, sizeof steps);
    std::string bytes = slice.before;
    bytes.append(reinterpret_cast<const char*>(&steps), sizeof steps).append(slice.after);
    return slice_of_bytes(std::move(bytes));
  }

  const OptimizerKeys& keys_;
  int64_t groups_ = 0;
  OptimizerValues result_;
  std::map<std::string, uint32_t> places_;  // bytes of an archive -> its index in result_.slices
};

}  // namespace

std::string OptimizerKeys::state_name(std::string_view parameter, std::string_view state) const {
  return cat(root, ".state.", parameter, ".", state);
}

formats::DcpPath OptimizerKeys::state_path(const std::string& parameter,
                                           const std::string& state) const {
  if (nested_states) return {root, "state", parameter, state};
  return {root, cat("state.", parameter, ".", state)};
}

OptimizerValues group_values(const std::vector<ValueGroup>& groups, const OptimizerKeys& keys) {
  ValuesBuilder builder(keys);
  for (const ValueGroup& group : groups) builder.add_group(group);
  return std::move(builder).finish();
}

void append_values(formats::DcpMetadata& metadata, const OptimizerValues& values,
                   const std::vector<formats::DcpSlice>& places) {
  for (formats::DcpValue value : values.values) {
    value.slice = places[value.slice.file];
    metadata.values.push_back(std::move(value));
  }
  for (formats::DcpTensor tensor : values.tensors) {
    formats::DcpSlice& slice = tensor.chunks.front().slice;
    slice = places[slice.file];
    metadata.tensors.push_back(std::move(tensor));
  }
}

OptimizerValues optimizer_values(const SavedOptimizer& optimizer, const layout::Layout& layout) {
  std::vector<ValueGroup> groups;
  for (LayoutGroup& from : groups_of(layout)) {
    ValueGroup group{
        settings_of(optimizer, from.orthogonalized, from.options), std::move(from.names), {}};
    if (!from.orthogonalized && optimizer.section.name != "sgd") {
      group.steps.assign(group.names.size(), static_cast<double>(optimizer.steps));
    }
    groups.push_back(std::move(group));
  }
  return group_values(groups, {});
}

}  // namespace am::checkpoint
