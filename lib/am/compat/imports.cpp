#include "am/compat/imports.h"

#include <algorithm>
#include <optional>

#include "am/base/error.h"
#include "am/base/shared_library.h"
#include "am/base/text.h"
#include "am/model/layer_class.h"

namespace am::compat {
namespace {

// Returns the known name that is nearest to the misspelt `path`; nothing if no name is near. Class
// names are compared with and without their modules, so that "LlamaDecoderLayer" is found for
// "LamaDecoderLayer".
std::optional<std::string> nearest_name(const std::string& path) {
  std::vector<std::string> candidates = model::layer_class_names();
  for (const std::string& full : model::layer_class_names()) {
    candidates.emplace_back(model::bare_class_name(full));
  }
  for (const std::string& name : parallel::parallel_strategy_names()) candidates.push_back(name);
  return nearest(path, candidates);
}

}  // namespace

ImportedClass import_class_from_path(const std::string& path) {
  if (const auto plugin = parse_plugin_name(path)) {
    return ImportedSymbol{plugin->library, plugin->symbol,
                          load_symbol(plugin->library, plugin->symbol)};
  }
  if (const model::Family* family = model::find_layer_class(path)) return ImportedLayer{family};
  const std::vector<std::string> strategies = parallel::parallel_strategy_names();
  if (std::find(strategies.begin(), strategies.end(), path) != strategies.end()) {
    return ImportedStrategy{path, parallel::find_parallel_strategy(path)};
  }
  const auto near = nearest_name(path);
  throw Error(ErrorKind::kUsage, cat("cannot import \"", path, "\": no class has this name"),
              cat(near ? cat("did you mean \"", *near, "\"? ") : std::string(),
                  "legal: a decoder layer's class in transformers "
                  "(\"transformers.models.llama.modeling_llama.LlamaDecoderLayer\"), a strategy (",
                  join(strategies, ", "), "), or \"libmine.so:symbol\""));
}

std::vector<ImportedClass> import_classes_from_paths(std::span<const std::string> paths) {
  std::vector<ImportedClass> classes;
  std::vector<std::string> failures;
  std::string hint;
  for (const std::string& path : paths) {
    try {
      classes.push_back(import_class_from_path(path));
    } catch (const Error& error) {
      failures.push_back(cat("\"", path, "\": ", error.what()));
      if (hint.empty()) hint = error.hint();
    }
  }
  if (failures.empty()) return classes;
  throw Error(ErrorKind::kUsage,
              cat(failures.size(), " of ", paths.size(), " classes cannot be imported:\n  ",
                  join(failures, "\n  ")),
              hint);
}

}  // namespace am::compat
