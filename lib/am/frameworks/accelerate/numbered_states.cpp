#include "am/frameworks/accelerate/numbered_states.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "am/base/error.h"
#include "am/base/number.h"
#include "am/base/text.h"
#include "am/formats/setting_value.h"
#include "am/frameworks/accelerate/checkpoint.h"
#include "am/frameworks/name_map.h"
#include "am/frameworks/paired_source.h"
#include "am/frameworks/state_name.h"
#include "am/run_folder/shard_index.h"
#include "am/stored/hub_config.h"
#include "am/stored/torch_source.h"

namespace am::frameworks {

namespace fs = std::filesystem;

namespace {

constexpr std::array<const char*, 2> kFiles = {"optimizer.pt", "optimizer.bin"};
constexpr std::string_view kGroups = "optimizer.param_groups.";

// Model types, separated by spaces, whose parameters have the order kBefore, kLayer for each layer,
// kBehind.
constexpr std::string_view kTypes = "llama mistral qwen2 qwen3";
// Parameters in the order of transformers' modules. `#` stands for the number of a layer.
constexpr auto kBefore = std::to_array<std::string_view>({"model.embed_tokens.weight"});
constexpr auto kLayer = std::to_array<std::string_view>({
    "model.layers.#.self_attn.q_proj.weight",
    "model.layers.#.self_attn.q_proj.bias",
    "model.layers.#.self_attn.k_proj.weight",
    "model.layers.#.self_attn.k_proj.bias",
    "model.layers.#.self_attn.v_proj.weight",
    "model.layers.#.self_attn.v_proj.bias",
    "model.layers.#.self_attn.o_proj.weight",
    "model.layers.#.self_attn.o_proj.bias",
    "model.layers.#.self_attn.q_norm.weight",
    "model.layers.#.self_attn.k_norm.weight",
    "model.layers.#.mlp.gate_proj.weight",
    "model.layers.#.mlp.gate_proj.bias",
    "model.layers.#.mlp.up_proj.weight",
    "model.layers.#.mlp.up_proj.bias",
    "model.layers.#.mlp.down_proj.weight",
    "model.layers.#.mlp.down_proj.bias",
    "model.layers.#.input_layernorm.weight",
    "model.layers.#.post_attention_layernorm.weight",
});
constexpr auto kBehind = std::to_array<std::string_view>({"model.norm.weight", "lm_head.weight"});

// Returns the names of all parameters in the order of transformers' modules. Empty if the order is
// not known for this model.
std::vector<std::string> ordered_names(const stored::TensorSource& weights) {
  const auto config = stored::hub_config_of(weights).config;
  if (!config || !has_word(kTypes, config->model_type)) return {};
  const auto count = static_cast<int64_t>(weights.tensors().size());
  if (config->num_hidden_layers > count) return {};
  std::vector<std::string> names;
  const auto add = [&](const auto& patterns, int64_t layer) {
    for (const std::string_view pattern : patterns) {
      std::string name = fill_name(pattern, {layer});
      if (weights.find(name) != nullptr) names.push_back(std::move(name));
    }
  };
  add(kBefore, 0);
  for (int64_t layer = 0; layer < config->num_hidden_layers; ++layer) add(kLayer, layer);
  add(kBehind, 0);
  if (names.size() != weights.tensors().size()) return {};
  return names;
}

// Number of a parameter -> its name.
using Numbers = std::map<std::string, std::string, std::less<>>;

struct Numbered {
  Numbers names;
  std::map<std::string, std::string> groups;  // name of a parameter -> number of its group
  std::string problem;                        // error that left `names` empty; empty: no error
};

// Finds the name of each numbered parameter. Returns an empty result, without a problem, if the
// states already have parameter names.
Numbered number(const stored::TensorSource& states, const stored::TensorSource& weights) {
  std::vector<std::vector<double>> groups;
  for (;;) {
    const std::string name = cat(kGroups, groups.size(), ".params");
    std::optional<formats::SettingValue> value;
    const auto look = [&](const auto& found) { value = formats::setting_value(found); };
    if (!states.visit_value(name, look)) break;
    // In a full state dict of FSDP, the names of states already contain parameter names.
    if (value && std::holds_alternative<std::vector<std::string>>(*value)) return {};
    const auto* numbers = value ? std::get_if<std::vector<double>>(&*value) : nullptr;
    constexpr double kMost = 1e9;
    const bool legal =
        numbers != nullptr && std::all_of(numbers->begin(), numbers->end(), [](double each) {
          return each >= 0 && each < kMost && each == std::floor(each);
        });
    if (!legal) return {{}, {}, "its param_groups have no lists of parameter numbers"};
    groups.push_back(*numbers);
  }
  const std::vector<std::string> ordered = ordered_names(weights);
  if (ordered.empty()) return {{}, {}, "the order of this model's parameters is not known"};
  std::vector<std::vector<std::string>> names(groups.size());
  for (const std::string& name : ordered) {
    const bool decays = weights.find(name)->shape.size() > 1;
    if (!names.empty()) names[groups.size() == 2 && !decays ? 1 : 0].push_back(name);
  }
  Numbered result;
  for (size_t i = 0; i < groups.size(); ++i) {
    if (names[i].size() != groups[i].size()) {
      return {{},
              {},
              cat("group ", i, " has ", groups[i].size(), " parameters, not ", names[i].size())};
    }
    for (size_t k = 0; k < names[i].size(); ++k) {
      result.names[std::to_string(static_cast<int64_t>(groups[i][k]))] = names[i][k];
      result.groups[names[i][k]] = std::to_string(i);
    }
  }
  for (const stored::StoredTensor& tensor : states.optimizer_tensors()) {
    const auto state = split_state(tensor.name);
    if (!state || tensor.shape.empty()) continue;
    const auto name = result.names.find(state->parameter);
    if (name != result.names.end() && weights.find(name->second)->shape == tensor.shape) continue;
    return {{},
            {},
            cat("state ", state->state, " of parameter ", state->parameter, " with shape ",
                shape_text(tensor.shape), " does not match the weights")};
  }
  return result;
}

// Source of the optimizer states and settings in one file. The names of states and settings contain
// parameter names. If the parameter names are not known, states and settings have the same names as
// in `states`.
class NumberedStates : public stored::TensorSource {
 public:
  NumberedStates(std::unique_ptr<stored::TensorSource> states, const Numbered& numbered)
      : states_(std::move(states)) {
    for (const stored::StoredTensor& tensor : states_->optimizer_tensors()) {
      const auto state = split_state(tensor.name);
      const auto name = state ? numbered.names.find(state->parameter) : numbered.names.end();
      stored::StoredTensor named = tensor;
      if (name != numbered.names.end()) {
        named.name = run_folder::state_name(name->second, state->state);
      }
      places_.emplace(named.name, tensor.name);
      optimizer_.push_back(std::move(named));
    }
    std::sort(optimizer_.begin(), optimizer_.end(),
              [](const auto& a, const auto& b) { return natural_less(a.name, b.name); });
    for (const std::string& stored : states_->values()) {
      for (const auto& [name, group] : numbered.groups) {
        const std::string prefix = cat(kGroups, group, ".");
        if (!starts_with(stored, prefix) || ends_with(stored, ".params")) continue;
        values_.emplace(cat(kGroups, name, ".", stored.substr(prefix.size())), stored);
      }
      if (numbered.groups.empty()) values_.emplace(stored, stored);
    }
  }

  std::string format() const override { return states_->format(); }
  fs::path path() const override { return states_->path(); }
  const std::vector<stored::StoredTensor>& tensors() const override { return none_; }
  const std::vector<stored::StoredTensor>& optimizer_tensors() const override { return optimizer_; }
  std::vector<std::string> values() const override {
    std::vector<std::string> names;
    for (const auto& [name, stored] : values_) names.push_back(name);
    return names;
  }
  bool visit_value(std::string_view name, const VisitValue& view) const override {
    const auto found = values_.find(name);
    return found != values_.end() && states_->visit_value(found->second, view);
  }
  fs::path config_file() const override { return {}; }
  std::vector<fs::path> data_files() const override { return states_->data_files(); }
  std::vector<stored::StoredProblem> damage() const override { return states_->damage(); }
  fs::path file_of(const stored::StoredTensor&, size_t) const override { return path(); }
  void verify(const stored::VerifyCalls& calls) const override { states_->verify(calls); }
  void read(std::string_view name, const mesh::Box& box,
            const stored::Destination& out) const override {
    states_->read(stored::place_in(places_, name, path()), box, out);
  }

 private:
  std::unique_ptr<stored::TensorSource> states_;
  std::map<std::string, std::string, std::less<>> places_;  // name -> stored name
  std::map<std::string, std::string, std::less<>> values_;  // name -> stored name
  std::vector<stored::StoredTensor> optimizer_, none_;
};

}  // namespace

std::optional<fs::path> numbered_states_file(const fs::path& folder) {
  for (const char* name : kFiles) {
    if (fs::is_regular_file(folder / name)) return folder / name;
  }
  return std::nullopt;
}

std::unique_ptr<stored::TensorSource> with_numbered_states(
    std::unique_ptr<stored::TensorSource> weights, const fs::path& file) {
  const fs::path folder = weights->path();
  Paired paired = {.format = "accelerate",
                   .folder = folder,
                   .config_file = weights->config_file(),
                   .step = trainer_step(folder)};
  const std::string name = file.filename().string();
  std::unique_ptr<stored::TensorSource> states;
  try {
    auto stored = stored::open_torch_files(
        {.format = "accelerate", .path = file, .parts = {{file, {"optimizer"}}}});
    const Numbered numbered = number(*stored, *weights);
    if (!numbered.problem.empty()) {
      paired.note = cat(name, " has numbers instead of parameter names, and ", numbered.problem,
                        ": its states keep these numbers");
    }
    states = std::make_unique<NumberedStates>(std::move(stored), numbered);
  } catch (const Error& error) {
    paired.note = cat(name, " beside the weights cannot be read: ", error.what());
    paired.damage.push_back({name, cat("cannot be read: ", error.what())});
  }
  return pair_up(std::move(paired), std::move(weights), std::move(states));
}

}  // namespace am::frameworks
