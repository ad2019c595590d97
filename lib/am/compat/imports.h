// Resolves Python dotted paths: AutoModel's import_class_from_path.
//
//   import_class_from_path("transformers.models.llama.modeling_llama.LlamaDecoderLayer");
//   import_class_from_path("LlamaDecoderLayer");     // the same: a decoder layer, a unit of FSDP
//   import_class_from_path("fsdp2");                 // a strategy, built in or registered
//   import_class_from_path("libmine.so:my_plan");    // a plugin's function or object
//
// AutoModel imports a module and returns one of its attributes. Without Python, a path is a name
// that automesh knows, or a symbol of a shared library. For a list of paths AutoModel prints a
// warning for each failure and continues with a shorter list, so that the units silently differ
// from those requested; here one error reports all failures, each with its path and cause.
#pragma once

#include <span>
#include <string>
#include <variant>
#include <vector>

#include "am/model/family.h"
#include "am/parallel/strategy.h"

namespace am::compat {

// The decoder layer of a family.
struct ImportedLayer {
  const model::Family* family = nullptr;
};

struct ImportedStrategy {
  std::string name;
  parallel::ParallelStrategy strategy;
};

// A plugin's function or object. Functions that a plugin may have: layout/tp_plan_abi.h,
// parallel/strategy.h.
struct ImportedSymbol {
  std::string library;
  std::string symbol;
  void* address = nullptr;
};

using ImportedClass = std::variant<ImportedLayer, ImportedStrategy, ImportedSymbol>;

// A relative library path is resolved against the working folder; the library stays loaded. Throws
// Error(kUsage) for an unknown name, with the nearest known one, and Error(kIo) for a plugin that
// cannot be loaded.
ImportedClass import_class_from_path(const std::string& path);

// Resolves all paths, in order. If any fails, throws one Error(kUsage) with a line for each
// failure.
std::vector<ImportedClass> import_classes_from_paths(std::span<const std::string> paths);

}  // namespace am::compat
