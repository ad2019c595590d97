#include "am/checkpoint/optimizer_values.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <map>
#include <utility>

#include "am/base/text.h"
#include "am/config/optimizer.h"
#include "am/formats/pickle_writer.h"
#include "am/formats/torch_slice.h"

namespace am::checkpoint {

namespace {

using formats::DcpPath;
using formats::PickleWriter;
using WriteValue = std::function<void(PickleWriter&)>;

WriteValue none() {
  return [](PickleWriter& pickle) { pickle.none(); };
}
WriteValue flag(bool value) {
  return [value](PickleWriter& pickle) { pickle.boolean(value); };
}
WriteValue real(double value) {
  return [value](PickleWriter& pickle) { pickle.real(value); };
}
WriteValue integer(int64_t value) {
  return [value](PickleWriter& pickle) { pickle.integer(value); };
}
WriteValue text(const std::string& value) {
  return [value](PickleWriter& pickle) { pickle.text(value); };
}
WriteValue reals(std::vector<double> values) {
  return [values = std::move(values)](PickleWriter& pickle) {
    pickle.open_mark();
    for (const double value : values) pickle.real(value);
    pickle.close_tuple();
  };
}
WriteValue texts(std::vector<std::string> values) {
  return [values = std::move(values)](PickleWriter& pickle) {
    pickle.empty_list();
    pickle.open_mark();
    for (const std::string& value : values) pickle.text(value);
    pickle.close_list_items();
  };
}

struct Entry {
  const char* key;
  WriteValue value;
};

// Returns the entries of one of torch.optim's param_groups, with the keys and types of PyTorch
// 2.11.
std::vector<Entry> entries_of(const SavedOptimizer& optimizer, bool orthogonalized,
                              const layout::OptimizerOptions& options) {
  const config::OptimizerSection& section = optimizer.section;
  const double peak = optimizer.peak.value_or(section.lr);
  const double lr = config::parameter_lr(optimizer.lr, peak, options.lr);
  const double initial = config::parameter_lr(section.lr, peak, options.lr);
  const double decay = options.weight_decay;
  const double momentum = config::momentum_of(section);
  if (orthogonalized) {
    return {{"lr", real(lr)},
            {"initial_lr", real(initial)},
            {"weight_decay", real(decay)},
            {"momentum", real(momentum)},
            {"nesterov", flag(config::nesterov_of(section))},
            {"ns_coefficients", reals({3.4445, -4.7750, 2.0315})},
            {"eps", real(1e-7)},
            {"ns_steps", integer(5)},
            {"adjust_lr_fn", section.adjust_lr == "original" ? none() : text(section.adjust_lr)}};
  }
  if (section.name == "sgd") {
    return {{"lr", real(lr)},
            {"initial_lr", real(initial)},
            {"momentum", real(momentum)},
            {"dampening", real(0.0)},
            {"weight_decay", real(decay)},
            {"nesterov", flag(config::nesterov_of(section))},
            {"maximize", flag(false)},
            {"foreach", none()},
            {"differentiable", flag(false)},
            {"fused", none()}};
  }
  return {{"lr", real(lr)},
          {"initial_lr", real(initial)},
          {"betas", reals({section.betas[0], section.betas[1]})},
          {"eps", real(section.eps)},
          {"weight_decay", real(decay)},
          {"amsgrad", flag(false)},
          {"maximize", flag(false)},
          {"foreach", none()},
          {"capturable", flag(false)},
          {"differentiable", flag(false)},
          {"fused", none()},
          {"decoupled_weight_decay", flag(section.name != "adam")}};
}

class ValuesBuilder {
 public:
  ValuesBuilder(const SavedOptimizer& optimizer, const layout::Layout& layout)
      : optimizer_(optimizer), layout_(layout) {}

  OptimizerValues build() && {
    int64_t group = 0;
    for (const Group& each : groups()) {
      add_group(group++, each.names, each.orthogonalized, each.options);
    }
    return std::move(result_);
  }

 private:
  struct Group {
    bool orthogonalized = false;
    layout::OptimizerOptions options;
    std::vector<std::string> names;
  };

  // Returns the groups: Muon's before AdamW's, and those with decay before those without.
  std::vector<Group> groups() const {
    std::vector<Group> groups;
    for (const layout::ParameterLayout& each : layout_.parameters) {
      if (!each.trainable) continue;
      auto group = std::find_if(groups.begin(), groups.end(), [&](const Group& known) {
        return known.orthogonalized == each.orthogonalized && known.options == each.optimizer;
      });
      if (group == groups.end()) {
        group = groups.insert(group, {each.orthogonalized, each.optimizer, {}});
      }
      group->names.push_back(each.name);
    }
    std::stable_sort(groups.begin(), groups.end(), [](const Group& a, const Group& b) {
      const auto key = [](const Group& group) {
        return std::pair(!group.orthogonalized, group.options.weight_decay == 0.0);
      };
      return key(a) < key(b);
    });
    return groups;
  }

  void add_group(int64_t group, const std::vector<std::string>& names, bool orthogonalized,
                 const layout::OptimizerOptions& options) {
    for (const Entry& entry : entries_of(optimizer_, orthogonalized, options)) {
      const uint32_t slice = slice_of(entry.value);
      add(cat("optim.param_groups.", group, ".", entry.key),
          {"optim", "param_groups", group, entry.key}, slice);
      for (const std::string& name : names) {
        const std::string inner = cat("param_groups.", name, ".", entry.key);
        add(cat("optim.", inner), {"optim", inner}, slice);
      }
    }
    add(cat("optim.param_groups.", group, ".params"), {"optim", "param_groups", group, "params"},
        slice_of(texts(names)));
    const bool counts_steps = !orthogonalized && optimizer_.section.name != "sgd";
    if (!counts_steps) return;
    const uint32_t steps = steps_slice();
    for (const std::string& name : names) {
      formats::DcpTensor tensor;
      tensor.name = cat("optim.state.", name, ".step");
      tensor.path = {"optim", "state", name, "step"};
      tensor.dtype = "float32";
      tensor.chunks.push_back({{}, {}, {steps, 0, result_.slices[steps].size()}});
      result_.tensors.push_back(std::move(tensor));
    }
  }

  void add(std::string name, DcpPath path, uint32_t slice) {
    result_.values.push_back(
        {std::move(name), std::move(path), {slice, 0, result_.slices[slice].size()}});
  }

  uint32_t slice_of(const WriteValue& write) {
    PickleWriter pickle;
    write(pickle);
    return slice_of_bytes(formats::value_slice(std::move(pickle).finish()));
  }
  uint32_t slice_of_bytes(std::string bytes) {
    const auto [place, fresh] =
        places_.emplace(std::move(bytes), static_cast<uint32_t>(result_.slices.size()));
    if (fresh) result_.slices.push_back(place->first);
    return place->second;
  }
  uint32_t steps_slice() {
    const auto steps = static_cast<float>(optimizer_.steps);
    const formats::TorchSlice slice = formats::tensor_slice("float32", {}, 0, sizeof steps);
    std::string bytes = slice.before;
    bytes.append(reinterpret_cast<const char*>(&steps), sizeof steps).append(slice.after);
    return slice_of_bytes(std::move(bytes));
  }

  const SavedOptimizer& optimizer_;
  const layout::Layout& layout_;
  OptimizerValues result_;
  std::map<std::string, uint32_t> places_;  // bytes of an archive -> its index in result_.slices
};

}  // namespace

OptimizerValues optimizer_values(const SavedOptimizer& optimizer, const layout::Layout& layout) {
  return ValuesBuilder(optimizer, layout).build();
}

}  // namespace am::checkpoint
