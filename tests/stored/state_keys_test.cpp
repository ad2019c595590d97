// Tests names in saved states: the keys of enclosing dicts and the components that wrappers add are
// removed, in the same way for all formats.
#include "am/stored/state_keys.h"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

namespace am::stored {
namespace {

std::vector<std::string> parameters_of(const std::vector<KeyPath>& paths) {
  std::vector<std::string> names;
  for (const StateKey& key : name_state(paths)) {
    if (key.parameter) names.push_back(key.name);
  }
  return names;
}

std::vector<std::string> states_of(const std::vector<KeyPath>& paths) {
  std::vector<std::string> names;
  for (const StateKey& key : name_state(paths)) {
    if (!key.parameter) names.push_back(key.name);
  }
  return names;
}

using Names = std::vector<std::string>;

const Names kBare = {"model.layers.0.mlp.up_proj.weight", "lm_head.weight"};

}  // namespace

TEST_CASE("wrappers' components are taken off the names of all tensors") {
  const std::vector<std::vector<std::string>> wrapped = {
      {"module.model.layers.0.mlp.up_proj.weight", "module.lm_head.weight"},
      {"module.module.model.layers.0.mlp.up_proj.weight", "module.module.lm_head.weight"},
      {"_orig_mod.model.layers.0.mlp.up_proj.weight", "_orig_mod.lm_head.weight"},
      {"module._orig_mod.model.layers.0.mlp.up_proj.weight", "module._orig_mod.lm_head.weight"},
      {"_orig_mod.module.model.layers.0.mlp.up_proj.weight", "_orig_mod.module.lm_head.weight"},
      {"model.layers.0._orig_mod.mlp.up_proj.weight", "lm_head.weight"},
      {"model.layers.0._checkpoint_wrapped_module.mlp.up_proj.weight", "lm_head.weight"},
      {"_fsdp_wrapped_module.model.layers.0._fsdp_wrapped_module._checkpoint_wrapped_module.mlp."
       "up_proj.weight",
       "_fsdp_wrapped_module.lm_head.weight"},
      {"_forward_module.model.layers.0.mlp.up_proj.weight", "_forward_module.lm_head.weight"},
      {"model_state_dict.model.layers.0.mlp.up_proj.weight", "model_state_dict.lm_head.weight"},
      {"model.model.layers.0.mlp.up_proj.weight", "model.lm_head.weight"},
  };
  for (const auto& names : wrapped) {
    INFO(names.front());
    CHECK(parameters_of({{names[0]}, {names[1]}}) == kBare);
  }
}

TEST_CASE("a component that only looks like a wrapper's stays") {
  // "module." is not removed, because only some names begin with it.
  const Names mixed = {"module.a.weight", "b.weight"};
  CHECK(parameters_of({{mixed[0]}, {mixed[1]}}) == mixed);
  // "model." is not removed, because it is part of the names of the base model.
  const Names base = {"model.embed_tokens.weight", "model.norm.weight"};
  CHECK(parameters_of({{base[0]}, {base[1]}}) == base);
  const Names inside = {"my_orig_mod.weight", "a.module.weight"};
  CHECK(parameters_of({{inside[0]}, {inside[1]}}) == inside);
}

TEST_CASE("a model's dict is found under the keys that trainers use") {
  const std::vector<std::vector<std::string>> roots = {
      {"model"},  {"state_dict"},   {"model_state_dict"},
      {"module"}, {"app", "model"}, {"app", "state_dict"}};
  for (const auto& root : roots) {
    INFO(root.back());
    std::vector<KeyPath> paths;
    for (const std::string& name : kBare) {
      KeyPath path = root;
      path.push_back(name);
      paths.push_back(path);
    }
    paths.push_back({"app", "optim", "state", kBare[0], "exp_avg"});
    paths.push_back({"optimizer_states", "0", "state", "0", "exp_avg"});
    paths.push_back({"rng", "cpu"});
    CHECK(parameters_of(paths) == kBare);
    CHECK(states_of(paths) ==
          Names{"optim.state." + kBare[0] + ".exp_avg", "optim.0.state.0.exp_avg", "rng.cpu"});
  }
}

TEST_CASE("a LightningModule's dict has its model under an attribute") {
  CHECK(parameters_of({{"state_dict", "model.model.layers.0.mlp.up_proj.weight"},
                       {"state_dict", "model.lm_head.weight"},
                       {"optimizer_states", "0", "state", "0", "exp_avg"}}) == kBare);
}

TEST_CASE("two models of one state keep their names") {
  const std::vector<KeyPath> paths = {{"teacher", "model", "w"}, {"student", "model", "w"}};
  CHECK(parameters_of(paths) == Names{"teacher.model.w", "student.model.w"});
}

TEST_CASE("a model inside a dict is not chosen over one beside it") {
  const std::vector<std::string> beside = {"net", "weights", "student"};
  for (const std::string& key : beside) {
    const std::vector<KeyPath> paths = {{key, "a.weight"}, {"ema", "model", "a.weight"}};
    CHECK(parameters_of(paths) == Names{key + ".a.weight", "ema.model.a.weight"});
  }
  // The model in {"app": {"model": ..}} has no tensor "cpu", so "rng.cpu" does not belong to a
  // second model.
  CHECK(parameters_of({{"app", "model", "a.weight"}, {"rng", "cpu"}}) == Names{"a.weight"});
}

TEST_CASE("an optimizer's states lose what their parameters lose") {
  const std::vector<KeyPath> paths = {
      {"model", "module.a.weight"},
      {"optimizer", "state", "module.a._orig_mod.weight", "exp_avg"},
      {"optim.state.module.a.weight.step"}};
  CHECK(parameters_of(paths) == Names{"a.weight"});
  CHECK(states_of(paths) == Names{"optim.state.a.weight.exp_avg", "optim.state.a.weight.step"});
}

TEST_CASE("states of a trainer beside flat parameters are no parameters") {
  const std::vector<KeyPath> paths = {{"layers.0.w"}, {"train_state.step"}, {"dataloader.rank_0"}};
  CHECK(parameters_of(paths) == Names{"layers.0.w"});
}

}  // namespace am::stored
