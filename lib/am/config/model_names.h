// Finds models by name, without the network: among the built-in configs of plans/models, which are
// part of an installation, and in the cache of Hugging Face's hub.
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

// Returns the folder of the model with this name; nothing if the model is not found. A name "x"
// means a built-in config. A name "org/x" means a snapshot in the cache of the hub ($HF_HUB_CACHE,
// $HF_HOME/hub or ~/.cache/huggingface/hub): that of the branch main, otherwise the newest one.
std::optional<std::filesystem::path> find_model(std::string_view name);
// Returns the path of a model that a user gives as a path or as a name. Returns `given` unchanged
// if this path exists, or if no model has this name; otherwise the folder that find_model() finds.
std::filesystem::path model_path(const std::filesystem::path& given);
// Returns the names of the built-in configs, sorted; empty if none are installed.
std::vector<std::string> builtin_models();
// Returns a hint for a text that names no model: the nearest built-in name, and the legal forms.
std::string model_hint(std::string_view given);

}  // namespace am::config
