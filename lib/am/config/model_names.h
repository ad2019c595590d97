// Finds models by name, without the network: the built-in configs of plans/models, which are part
// of an installation, and the cache of Hugging Face's hub.
//
//   find_model("llama-3.1-8b");                 // the installed folder with its config.json
//   find_model("meta-llama/Llama-3.1-8B");      // a snapshot in the cache of the hub
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace am::config {

// Returns the folder of the model with this name: a built-in config, or "org/name" in the cache of
// the hub ($HF_HUB_CACHE, $HF_HOME/hub or ~/.cache/huggingface/hub; the snapshot of the branch
// main, otherwise the newest). Returns nothing if there is none.
std::optional<std::filesystem::path> find_model(std::string_view name);
// Returns the path of the model that a user names by `given`, a path or a name: `given` itself if
// that path exists or no model has this name, otherwise the folder that find_model() returns.
std::filesystem::path model_path(const std::filesystem::path& given);
// Returns the names of the built-in configs, sorted; empty if none are installed.
std::vector<std::string> builtin_models();
// Returns a hint for a text that names no model: the nearest built-in name, and what may be given.
std::string model_hint(std::string_view given);

}  // namespace am::config
