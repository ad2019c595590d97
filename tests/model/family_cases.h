// Parses model configs, and reads the random configs of every family from tests/data/families.
#pragma once

#include <catch2/catch.hpp>
#include <filesystem>
#include <string>
#include <vector>

#include "am/base/file.h"
#include "am/base/json.h"
#include "am/base/text.h"
#include "am/model/config.h"
#include "am/model/family.h"
#include "support/folders.h"

namespace am::test {

inline model::ModelConfig config_of(const std::string& text) {
  Diagnostics found;
  auto config = model::parse_config(text, "config.json", found);
  for (const auto& item : found.items()) UNSCOPED_INFO(item.rule << ": " << item.message);
  REQUIRE(config.has_value());
  return *std::move(config);
}

inline model::ModelConfig config_of(const Json& json) { return config_of(json.dump(1)); }

// Returns the family's 20 random configs.
inline std::vector<model::ModelConfig> family_cases(std::string_view model_type) {
  const std::string file = cat(kDataFolder, "/families/", model_type, ".json");
  std::vector<model::ModelConfig> configs;
  const Json saved = Json::parse(read_file(file));
  for (const Json& sample : saved["cases"]) {
    configs.push_back(config_of(sample["config"]));
  }
  return configs;
}

inline std::vector<model::ModelConfig> all_cases() {
  std::vector<model::ModelConfig> configs;
  for (const model::Family* family : model::families()) {
    for (auto& config : family_cases(family->model_type)) configs.push_back(std::move(config));
  }
  return configs;
}

}  // namespace am::test
