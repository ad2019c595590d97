// Compares tensor-parallel styles with the objects that PyTorch builds for them, and TP plans with
// those of transformers (tests/data/tp).
#include "am/compat/parallel_style.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <set>

#include "am/base/error.h"
#include "am/base/file.h"
#include "am/base/json.h"
#include "am/base/text.h"
#include "am/compat/hf_tp_plan.h"
#include "am/model/family.h"
#include "am/model/layer_class.h"
#include "support/folders.h"

namespace {

using am::Error;
using am::Json;
using am::compat::get_hf_tp_shard_plan;
using am::compat::translate_to_torch_parallel_style;
using am::model::ModelConfig;
using am::model::TpStyle;

Json read(const std::string& name) {
  return Json::parse(am::read_file(am::cat(am::test::kDataFolder, "/tp/", name)));
}

// Returns small random configs of a family from tests/data/families.
std::vector<ModelConfig> configs_of(const std::string& family) {
  std::vector<ModelConfig> configs;
  const Json file =
      Json::parse(am::read_file(am::cat(am::test::kDataFolder, "/families/", family, ".json")));
  for (const Json& one : file["cases"]) {
    am::Diagnostics found;
    auto config = am::model::parse_config(one["config"].dump(), "config.json", found);
    REQUIRE(config.has_value());
    configs.push_back(*std::move(config));
  }
  return configs;
}

using Plan = std::map<std::string, TpStyle>;

bool has_module(const ModelConfig& config, const std::string& pattern) {
  const auto inventory = am::model::build_inventory(config);
  for (const auto& parameter : inventory.parameters) {
    if (am::glob_match(pattern, parameter.module())) return true;
  }
  return false;
}

// Returns transformers' plan for the modules of this config that automesh can shard.
Plan wanted_plan(const Json& entry, const ModelConfig& config) {
  const am::model::ModuleNames& names = am::model::family_of(config).names;
  const std::string base(names.embedding.substr(0, names.embedding.find('.') + 1));
  Plan plan = {{std::string(names.embedding), TpStyle::kRowwiseRep}};
  for (const auto& [pattern, style] : entry["base"].items()) {
    const std::string module = base + pattern;
    if (module.find(".experts") != std::string::npos || !has_module(config, module)) continue;
    plan[module] = translate_to_torch_parallel_style(style.get<std::string>()).style;
  }
  CHECK(entry["model"] == Json{{"lm_head", "colwise_gather_output"}});
  const std::string head(names.head);
  if (has_module(config, head)) plan[head] = TpStyle::kColwise;
  return plan;
}

TEST_CASE("a style is what PyTorch builds for it") {
  const Json styles = read("styles.json");
  for (const auto& [name, torch] : styles.items()) {
    INFO(name);
    const auto style = translate_to_torch_parallel_style(name);
    CHECK(style.class_name == torch["class"].get<std::string>());
    CHECK(to_string(style.input_layout) == torch["input"].get<std::string>());
    CHECK(to_string(style.output_layout) == torch["output"].get<std::string>());
  }
}

TEST_CASE("newer names are the same styles") {
  for (const auto& [newer, older] :
       std::map<std::string, std::string>{{"colwise_gather_output", "colwise_rep"},
                                          {"rowwise_split_input", "rowwise_rep"},
                                          {"embedding_rowwise", "rowwise_rep"}}) {
    CHECK(translate_to_torch_parallel_style(newer).style ==
          translate_to_torch_parallel_style(older).style);
  }
  const auto summed = translate_to_torch_parallel_style("replicated_with_grad_allreduce");
  CHECK(summed.style == TpStyle::kReplicatedWithGradAllreduce);
  CHECK(summed.class_name.empty());
}

TEST_CASE("an unknown style names the legal ones") {
  for (const std::string name : {"", "colwize", "packed_rowwise", "Colwise"}) {
    INFO(name);
    try {
      translate_to_torch_parallel_style(name);
      FAIL("no error");
    } catch (const Error& error) {
      CHECK(error.what() == am::cat("\"", name, "\" is not a tensor-parallel style"));
      for (const std::string& legal : am::model::parallel_style_names()) {
        CHECK_THAT(error.hint(), Catch::Contains(legal));
      }
    }
  }
}

TEST_CASE("the Hugging Face plan is that of transformers") {
  const Json plans = read("plans.json");
  CHECK(std::ssize(plans) == std::count_if(am::model::families().begin(),
                                           am::model::families().end(),
                                           [](const auto* family) { return family->runs; }));
  std::set<std::string> without;
  for (const auto& [family, entry] : plans.items()) {
    for (const ModelConfig& config : configs_of(family)) {
      INFO(family << ": " << config.text);
      Plan got;
      try {
        for (const auto& rule : get_hf_tp_shard_plan(config).rules) got[rule.pattern] = rule.style;
      } catch (const Error& error) {
        CHECK_THAT(error.what(), Catch::Contains(family));
        CHECK_THAT(error.hint(), Catch::Contains("tp_size = 1"));
        without.insert(family);
        continue;
      }
      CHECK((got == wanted_plan(entry, config)));
    }
  }
  CHECK(without == std::set<std::string>{"bloom", "mpt", "deepseek_v2", "deepseek_v3", "falcon",
                                         "gpt2", "gpt_oss", "granitemoe", "hunyuan_v1_dense",
                                         "hunyuan_v1_moe", "opt", "stablelm"});
  for (const std::string family : {"bloom", "falcon", "gpt2", "mpt", "opt", "stablelm"}) {
    CHECK(plans[family]["base"].is_null());
  }
}

TEST_CASE("decoder layers have the classes of transformers") {
  const Json plans = read("plans.json");
  for (const auto* family : am::model::families()) {
    if (!family->runs) continue;
    INFO(std::string(family->model_type));
    const std::string path = plans[std::string(family->model_type)]["layer_class"];
    CHECK(family->layer_class == path);
    CHECK(am::model::find_layer_class(path) == family);
    CHECK(am::model::find_layer_class(path.substr(path.rfind('.') + 1)) == family);
  }
  CHECK(am::model::find_layer_class("LlamaForCausalLM") == nullptr);
  CHECK(am::model::find_layer_class("elsewhere.LlamaDecoderLayer") == nullptr);
  CHECK(am::model::find_layer_class("") == nullptr);
}

}  // namespace
