// Finds the Hugging Face config.json of a model whose checkpoint another framework has written.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "am/model/config.h"
#include "am/stored/tensor_source.h"

namespace am::stored {

struct HubConfig {
  std::filesystem::path file;                // path of the config.json; empty if none was found
  std::optional<model::ModelConfig> config;  // nullopt if the file is missing or invalid
  std::string problem;                       // why `config` is missing
};

// Loads the first config.json in these folders that contains the key model_type. Skips OLMo-core's
// own config.json, which does not contain this key. If there is none, `problem` of the result is
// set.
HubConfig find_hub_config(const std::vector<std::filesystem::path>& folders);
// Loads the config.json beside the source's weights (TensorSource::config_file). If there is none,
// or it has no key model_type, `problem` of the result is set.
HubConfig hub_config_of(const TensorSource& source);

}  // namespace am::stored
