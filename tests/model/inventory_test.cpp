#include "am/model/inventory.h"

#include <catch2/catch.hpp>
#include <fstream>

#include "am/base/file.h"
#include "am/base/json.h"
#include "am/base/text.h"
#include "am/model/config.h"
#include "am/model/flops.h"
#include "support/folders.h"

namespace {

using am::model::build_inventory;
using am::model::Inventory;
using am::model::ModelConfig;
using am::test::model_of;

TEST_CASE("totals equal the published ones to the digit") {
  std::ifstream csv(am::cat(am::test::kDataFolder, "/models/parameters.csv"));
  std::string line;
  REQUIRE(std::getline(csv, line));
  int models = 0;
  while (std::getline(csv, line)) {
    const auto fields = am::split(line, ',');
    INFO(line);
    const ModelConfig config = model_of(fields.at(0));
    const Inventory inventory = build_inventory(config);
    CHECK(inventory.total() == std::stoll(fields.at(1)));
    CHECK(am::model::active_parameters(config, inventory) == std::stoll(fields.at(2)));
    ++models;
  }
  CHECK(models == 41);
}

// The JSON files list the parameter names and shapes of transformers' classes in order, without the
// layers between the first and the last. The files also contain the total number of parameters.
TEST_CASE("names, order and shapes are transformers'") {
  for (const auto& [family, model] : {std::pair{"llama", "llama-3.2-1b"},
                                      {"mistral", "mistral-7b-v0.3"},
                                      {"qwen2", "qwen2.5-0.5b"},
                                      {"qwen3", "qwen3-0.6b"}}) {
    INFO(model);
    const ModelConfig config = model_of(model);
    const Inventory inventory = build_inventory(config);
    const auto json =
        am::Json::parse(am::read_file(am::cat(am::test::kDataFolder, "/names/", family, ".json")));
    am::Json ours = am::Json::object();
    for (const auto& parameter : inventory.parameters) {
      const bool inner = parameter.layer > 0 && parameter.layer < config.num_hidden_layers - 1;
      if (!inner) ours[parameter.name] = parameter.shape;
    }
    ours["total"] = inventory.total();
    CHECK(ours.dump(1) == json.dump(1));
  }
}

TEST_CASE("biases follow their weights") {
  ModelConfig config = model_of("llama-3.2-1b");
  config.num_hidden_layers = 1;
  config.qkv_bias = config.o_bias = config.mlp_bias = true;
  const Inventory inventory = build_inventory(config);
  REQUIRE(inventory.find("model.layers.0.self_attn.o_proj.bias") != nullptr);
  CHECK(inventory.find("model.layers.0.self_attn.o_proj.bias")->shape == am::Shape{2048});
  CHECK(inventory.find("model.layers.0.mlp.gate_proj.bias")->shape == am::Shape{8192});
  CHECK(inventory.find("model.layers.0.mlp.gate_proj.bias")->init == am::model::Init::kZeros);
  CHECK(inventory.find("lm_head.weight") == nullptr);
  CHECK(inventory.tied_lm_head);
}

TEST_CASE("a parameter knows its module") {
  const am::model::ParameterSpec spec{.name = "model.layers.3.mlp.up_proj.bias", .shape = {4}};
  CHECK(spec.module() == "model.layers.3.mlp.up_proj");
  CHECK(spec.leaf() == "bias");
}

TEST_CASE("units: embedding, layers, head, and last the root") {
  const Inventory untied = build_inventory(model_of("llama-3.1-8b"));
  const auto units = am::model::shard_units(untied);
  REQUIRE(units.size() == 35);
  CHECK(units.front().name == "model.embed_tokens");
  CHECK(units[1].name == "model.layers.0");
  CHECK(units[1].parameters.size() == 9);
  CHECK(units[32].layer == 31);
  CHECK(units[33].name == "lm_head");
  CHECK(units.back().name.empty());
  REQUIRE(units.back().parameters.size() == 1);
  CHECK(untied.parameters[static_cast<size_t>(units.back().parameters[0])].name ==
        "model.norm.weight");
  size_t covered = 0;
  for (const auto& unit : units) covered += unit.parameters.size();
  CHECK(covered == untied.parameters.size());

  const auto tied = am::model::shard_units(build_inventory(model_of("llama-3.2-1b")));
  CHECK(tied.size() == 18);
  CHECK(tied[tied.size() - 2].name == "model.layers.15");
}

TEST_CASE("flops per token follow the stated convention") {
  // 6 FLOPs for each parameter outside the embedding table (8 030 261 248 - 128 256 * 4 096
  // parameters), and 12 * layers * hidden size * sequence length for attention.
  CHECK(am::model::train_flops_per_token(model_of("llama-3.1-8b"), 8192) ==
        Approx(6.0 * 7504924672.0 + 12.0 * 32 * 4096 * 8192));
  // The embedding table is tied to the head, so the formula counts all parameters.
  CHECK(am::model::train_flops_per_token(model_of("llama-3.2-1b"), 1) ==
        Approx(6.0 * 1235814400.0 + 12.0 * 16 * 2048));
}

}  // namespace
