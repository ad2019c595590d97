#include "am/config/model_names.h"

#include <algorithm>
#include <cstdlib>

#include "am/base/file.h"
#include "am/base/home.h"
#include "am/base/text.h"

namespace am::config {
namespace {

namespace fs = std::filesystem;

bool has_config(const fs::path& folder) {
  std::error_code ignored;
  return fs::exists(folder / "config.json", ignored);
}

// Returns the folder of the built-in configs: $AM_MODELS if set; otherwise
// PREFIX/share/automesh/models for a program that is installed in PREFIX, or SOURCE/plans/models
// for a program that was built in SOURCE/build. Returns an empty path if there is no such folder.
fs::path builtin_folder() {
  if (const char* given = std::getenv("AM_MODELS"); given != nullptr && *given != '\0') {
    return given;
  }
  std::error_code ignored;
  fs::path above = fs::read_symlink("/proc/self/exe", ignored).parent_path();
  // The program is in PREFIX/bin, PREFIX/libexec/automesh, SOURCE/build/bin or
  // SOURCE/build/libexec/automesh, at most three levels below PREFIX or SOURCE.
  for (int up = 0; up < 3 && above.has_relative_path(); ++up) {
    above = above.parent_path();
    for (const char* folder : {"share/automesh/models", "plans/models"}) {
      if (fs::is_directory(above / folder, ignored)) return above / folder;
    }
  }
  return {};
}

fs::path hub_cache() {
  const auto variable = [](const char* name) {
    const char* value = std::getenv(name);
    return value == nullptr ? fs::path() : fs::path(value);
  };
  if (fs::path cache = variable("HF_HUB_CACHE"); !cache.empty()) return cache;
  if (const fs::path home = variable("HF_HOME"); !home.empty()) return home / "hub";
  return expand_home("~/.cache/huggingface/hub");
}

std::optional<fs::path> in_hub_cache(const std::string& organisation, const std::string& name) {
  const fs::path model = hub_cache() / cat("models--", organisation, "--", name);
  std::error_code ignored;
  if (const fs::path main = model / "refs" / "main"; fs::exists(main, ignored)) {
    const fs::path snapshot = model / "snapshots" / trim(read_file(main));
    if (has_config(snapshot)) return snapshot;
  }
  std::optional<fs::path> newest;
  for (const auto& entry : fs::directory_iterator(model / "snapshots", ignored)) {
    if (!has_config(entry.path())) continue;
    const bool newer = !newest || fs::last_write_time(entry.path(), ignored) >
                                      fs::last_write_time(*newest, ignored);
    if (newer) newest = entry.path();
  }
  return newest;
}

}  // namespace

std::vector<std::string> builtin_models() {
  std::vector<std::string> names;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(builtin_folder(), ignored)) {
    if (has_config(entry.path())) names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end(), natural_less);
  return names;
}

std::optional<fs::path> find_model(std::string_view name) {
  const std::vector<std::string> parts = split(name, '/');
  const bool plain = std::all_of(parts.begin(), parts.end(), [](const std::string& part) {
    return !part.empty() && part.front() != '.';
  });
  if (!plain || parts.size() > 2) return std::nullopt;
  if (parts.size() == 2) return in_hub_cache(parts[0], parts[1]);
  const fs::path folder = builtin_folder();
  const fs::path model = folder / std::string(name);
  if (folder.empty() || !has_config(model)) return std::nullopt;
  return model;
}

fs::path model_path(const fs::path& given) {
  std::error_code ignored;
  if (given.empty() || fs::exists(given, ignored)) return given;
  return find_model(given.string()).value_or(given);
}

std::string model_hint(std::string_view given) {
  const auto near = nearest(given, builtin_models());
  return cat(near ? cat("did you mean \"", *near, "\"? ") : std::string(),
             "give a Hugging Face config.json or its folder, or a model's name");
}

}  // namespace am::config
