// Resolves names that may be Python's dotted paths, as AutoModel's import_class_from_path does.
//
//   import_class_from_path("transformers.models.llama.modeling_llama.LlamaDecoderLayer");
//   import_class_from_path("LlamaDecoderLayer");     // also Llama's decoder layer, an FSDP unit
//   import_class_from_path("fsdp2");                 // a strategy, built in or registered
//   import_class_from_path("libmine.so:my_plan");    // a plugin's function or object
//
// AutoModel imports a module and returns one of its attributes. automesh has no Python, so a path
// here is the name of a layer class or of a strategy, or a symbol of a shared library. For a list
// of paths, AutoModel prints a warning for each failure and continues with a shorter list, so the
// FSDP units differ from the requested units. automesh throws one error that lists all failures,
// each with its path and cause.
#pragma once

#include <span>
#include <string>
#include <variant>
#include <vector>

#include "am/model/family.h"
#include "am/parallel/strategy.h"

namespace am::compat {

// The decoder layer of a model family.
struct ImportedLayer {
  const model::Family* family = nullptr;
};

struct ImportedStrategy {
  std::string name;
  parallel::ParallelStrategy strategy;
};

// A plugin's function or object. layout/tp_plan_abi.h and parallel/strategy.h describe the
// functions that a plugin may export.
struct ImportedSymbol {
  std::string library;
  std::string symbol;
  void* address = nullptr;
};

using ImportedClass = std::variant<ImportedLayer, ImportedStrategy, ImportedSymbol>;

// Returns the layer, strategy or symbol of this name. A plugin's relative path is resolved against
// the working folder, and its library stays loaded. Throws Error(kUsage) for an unknown name, with
// the nearest known name as a hint, and Error(kIo) for a plugin that cannot be loaded.
ImportedClass import_class_from_path(const std::string& path);

// Resolves all paths in order. If some fail, throws one Error(kUsage) with a line for each failure.
std::vector<ImportedClass> import_classes_from_paths(std::span<const std::string> paths);

}  // namespace am::compat
