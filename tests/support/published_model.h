// Reads the published configs in plans/models.
#pragma once

#include <catch2/catch.hpp>
#include <string>

#include "am/base/file.h"
#include "am/base/json.h"
#include "am/base/text.h"
#include "am/model/config.h"
#include "support/folders.h"

namespace am::test {

inline std::string model_folder(const std::string& name) {
  return cat(kSourceFolder, "/plans/models/", name);
}

inline Json model_json(const std::string& name) {
  return Json::parse(read_file(model_folder(name) + "/config.json"));
}

inline model::ModelConfig model_of(const std::string& name) {
  Diagnostics found;
  auto config = model::load_config(model_folder(name), found);
  INFO(name);
  for (const auto& item : found.items()) UNSCOPED_INFO(item.rule << ": " << item.message);
  REQUIRE(config.has_value());
  REQUIRE(found.empty());
  return *std::move(config);
}

}  // namespace am::test
