// Finds the hub's config.json of a model whose checkpoint another framework has written, in the
// folder or beside it.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "am/model/config.h"

namespace am::stored {

struct HubConfig {
  std::filesystem::path file;                // empty: none found
  std::optional<model::ModelConfig> config;  // nothing: none found, or not usable
  std::string problem;                       // why `config` is missing
};

// Returns the first config.json in these folders that has a model_type. OLMo-core's own config.json
// has none and is skipped.
HubConfig find_hub_config(const std::vector<std::filesystem::path>& folders);

}  // namespace am::stored
