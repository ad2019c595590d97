// What a Python dotted path names here: AutoModel's import_class_from_path.
//
//   import_class_from_path("transformers.models.llama.modeling_llama.LlamaDecoderLayer");
//   import_class_from_path("LlamaDecoderLayer");     // the same: a decoder layer, a unit of FSDP
//   import_class_from_path("fsdp2");                 // a strategy, built in or registered
//   import_class_from_path("libmine.so:my_plan");    // a plugin's function or object
//
// AutoModel imports a module and takes an attribute of it. There is no Python here, so a path is a
// name that automesh knows, or a symbol of a shared library. Of a list AutoModel prints a warning
// for each path that fails and goes on with a shorter one, so that units are silently not what was
// asked for; here all failures come together, each with its path and cause, as one error.
#pragma once

#include <span>
#include <string>
#include <variant>
#include <vector>

#include "am/model/family.h"
#include "am/parallel/strategy.h"

namespace am::compat {

// A family's decoder layer.
struct ImportedLayer {
  const model::Family* family = nullptr;
};

struct ImportedStrategy {
  std::string name;
  parallel::ParallelStrategy strategy;
};

// planner/tp_plan_abi.h and strategy.h say what functions a plugin may have.
struct ImportedSymbol {
  std::string library;
  std::string symbol;
  void* address = nullptr;
};

using ImportedClass = std::variant<ImportedLayer, ImportedStrategy, ImportedSymbol>;

// A relative library starts at the working folder, and stays loaded. Throws Error(kUsage) for a
// name that is not known, with the nearest that is, and Error(kIo) for a plugin that cannot be had.
ImportedClass import_class_from_path(const std::string& path);

// All of them, in order. Throws one Error(kUsage) with a line for each path that failed; none of
// the others are returned then.
std::vector<ImportedClass> import_classes_from_paths(std::span<const std::string> paths);

}  // namespace am::compat
