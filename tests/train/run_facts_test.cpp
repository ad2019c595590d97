// Tests the facts in checkpoint.json, which a resumed run compares with its own facts. The facts
// include every key of config.json that changes the model.
#include "am/train/run_facts.h"

#include <catch2/catch.hpp>
#include <string>

#include "am/base/file.h"
#include "am/base/json.h"
#include "am/base/text.h"
#include "am/data/from_plan.h"
#include "am/model/family.h"
#include "am/model/spec.h"
#include "support/changed_config.h"
#include "support/plans.h"

namespace am {
namespace {

Json facts_of_model(const model::ModelConfig& config) {
  const config::Plan plan = test::parse(
      "[model]\npath = \"hf/llama\"\n[train]\nseq_len = 16\n[mesh]\nworld_size = 1\n[data]\n"
      "kind = \"synthetic\"\n");
  return train::run_facts(plan, config, data::open_batches(plan, config.vocab_size));
}

Json facts_of(const std::string& family, const std::string& from = {}, const std::string& to = {}) {
  return facts_of_model(test::changed_config(family, from, to));
}

}  // namespace

TEST_CASE("facts tell models apart that differ in what is computed alone") {
  struct Change {
    const char* family;
    const char* from;
    const char* to;
    const char* fact;
  };
  const auto change = GENERATE(
      Change{"gemma3_text", "\"query_pre_attn_scalar\": 20", "\"query_pre_attn_scalar\": 12",
             "config.query_scalar"},
      Change{"gemma3_text", "\"rope_theta\": 10000.0", "\"rope_theta\": 500.0",
             "config.local_rope.theta"},
      Change{"gemma3_text", "\"factor\": 8.0", "\"factor\": 4.0", "config.rope.factor"},
      Change{"smollm3", "    1,\n    0\n  ]", "    1,\n    1\n  ]", "config.rotated_layers"});
  INFO(change.fact);
  const Json plain = facts_of(change.family);
  const Json changed = facts_of(change.family, change.from, change.to);
  REQUIRE(plain.contains(change.fact));
  CHECK(plain[change.fact] != changed[change.fact]);
  CHECK(plain == facts_of(change.family));
}

TEST_CASE("facts differ wherever a key of config.json changes the layers") {
  int changes = 0;
  for (const model::Family* family : model::families()) {
    if (!family->runs) continue;
    const std::string name(family->model_type);
    const std::string path = test::data_path(cat("hf/", name, "/config.json"));
    const Json plain = Json::parse(read_file(path));
    const auto read = [&](const Json& config) {
      Diagnostics found;
      return model::parse_config(config.dump(), path, found);
    };
    const Json facts = facts_of_model(*read(plain));
    // Sets the config's value at `pointer` to `value`. If the config is still legal and describes
    // another model, its facts must differ.
    const auto change = [&](const Json::json_pointer& pointer, const Json& value) {
      Json config = plain;
      config[pointer] = value;
      const auto changed = read(config);
      if (!changed || model::describe(*changed) == model::describe(*read(plain))) return;
      INFO(name << ": " << pointer.to_string() << " = " << value.dump());
      CHECK(facts_of_model(*changed) != facts);
      ++changes;
    };
    const Json flat = plain.flatten();
    for (const auto& [key, value] : flat.items()) {
      const Json::json_pointer pointer(key);
      if (value.is_boolean()) change(pointer, !value.get<bool>());
      if (value.is_number_integer()) {
        for (const int64_t step : {-1, 1}) change(pointer, value.get<int64_t>() + step);
        change(pointer, 2 * value.get<int64_t>());
      }
      if (value.is_number_float()) change(pointer, 0.75 * value.get<double>());
      if (value == "full_attention") change(pointer, "sliding_attention");
      if (value == "silu") change(pointer, "gelu");
    }
  }
  CHECK(changes > 200);
}

}  // namespace am
