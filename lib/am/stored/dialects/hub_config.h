// The hub's config.json of a model whose checkpoint another framework has written: in the folder or
// beside it.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "am/model/config.h"

namespace am::stored {

struct HubConfig {
  std::filesystem::path file;                // empty: there is none
  std::optional<model::ModelConfig> config;  // nothing: there is none, or none that can be used
  std::string problem;                       // why not
};

// The first config.json of these folders that has a model_type: OLMo-core's own, of the same name,
// has none.
HubConfig find_hub_config(const std::vector<std::filesystem::path>& folders);

}  // namespace am::stored
