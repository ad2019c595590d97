// Reads a config.json of tests/data/hf, with one substring of its text replaced.
#pragma once

#include <catch2/catch.hpp>
#include <string>

#include "am/base/file.h"
#include "am/base/text.h"
#include "am/model/config.h"
#include "support/folders.h"

namespace am::test {

// Returns the family's config, in which `to` replaces the first occurrence of `from`. Without
// `from` and `to`, returns the unchanged config. Fails the test if `from` does not occur.
inline model::ModelConfig changed_config(const std::string& family, const std::string& from = {},
                                         const std::string& to = {}) {
  std::string text = read_file(cat(kDataFolder, "/hf/", family, "/config.json"));
  const size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  text.replace(at, from.size(), to);
  Diagnostics found;
  auto config = model::parse_config(text, "config.json", found);
  REQUIRE(config.has_value());
  return *std::move(config);
}

}  // namespace am::test
