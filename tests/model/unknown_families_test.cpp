// Tests the causal models of transformers whose config has Llama's size keys and a model_type that
// automesh does not know. Each model's number of parameters must be exact, or its config must be
// refused. scripts/fixtures/check_unknown_families.py wrote the configs.
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "am/base/file.h"
#include "am/base/json.h"
#include "am/base/text.h"
#include "am/model/config.h"
#include "am/model/inventory.h"
#include "support/folders.h"

using namespace am;

TEST_CASE("a model that is none of our families is counted exactly or refused") {
  const Json all = Json::parse(read_file(cat(am::test::kDataFolder, "/unknown_families.json")));
  REQUIRE(all.size() > 30);
  std::vector<std::string> counted;
  for (const auto& [model_type, entry] : all.items()) {
    INFO(model_type);
    Diagnostics found;
    const auto config = model::parse_config(entry.at("config").dump(), model_type, found);
    if (!config) {
      REQUIRE(found.errors() > 0);
      CHECK(found.items()[0].rule == "model.family");
      continue;
    }
    counted.push_back(model_type);
    CHECK(model::build_inventory(*config).total() == entry.at("parameters").get<int64_t>());
    CHECK(found.count(Severity::kWarning) == 1);
  }
  for (const char* same : {"cwm", "internlm3", "ministral3"}) {
    CHECK_THAT(counted, Catch::VectorContains(std::string(same)));
  }
}
