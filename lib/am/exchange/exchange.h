// The same layout in another framework's own configuration, and back.
//
//   const Framework* torchtitan = find_framework("torchtitan");
//   const Exported out = export_plan(*torchtitan, {plan, model, layout});
//   out.text;                                   // a torchtitan TOML file
//   out.lost;                                   // what it cannot say, and why
//   const auto in = import_plan(*torchtitan, out.text, "llama.toml", found);
//   in->toml();                                 // a plan
//
// An export is read back at once, and what comes back different is what was lost, whatever a
// framework's file leaves out. A default that the file does not say comes back as it was: notes
// name the sections that have to be set elsewhere. To add a framework, write one file with a writer
// and a reader and a line in registry.cpp.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "am/base/diagnostic.h"
#include "am/config/plan.h"
#include "am/model/config.h"
#include "am/planner/layout.h"

namespace am::exchange {

// A key of the plan that the other side cannot express.
struct Lost {
  std::string key;    // "train.max_grad_norm"; inside of a table "strategy.mp_policy.reduce_dtype"
  std::string value;  // as JSON
  std::string why;
};

struct Exported {
  std::string text;
  std::vector<Lost> lost;
  std::vector<std::string> notes;  // what the user has to add or to know
};

// A setting of the other side that has no place in a plan.
struct Ignored {
  std::string key;    // by its own name
  std::string value;  // as JSON
  std::string why;
  Span span = {};
};

// A size of the model that the other side's file repeats.
struct Geometry {
  std::string key;  // by its own name: "--num-layers"
  std::string_view config_key;
  int64_t value = 0;
  Span span;
};

// What the other side calls its model: "Qwen/Qwen3-0.6B", "llama3 8B", "LlamaDecoderLayer".
struct ModelName {
  std::string key;  // by its own name
  std::string text;
  Span span;
};

struct Imported {
  config::Plan plan;
  std::vector<std::string> keys;  // those that the file decides: "mesh.tp_size"
  std::vector<Ignored> ignored;   // harmless
  std::vector<Ignored> lost;      // what would change the layout or the numbers
  std::vector<Geometry> geometry;
  std::vector<ModelName> names;
  std::vector<std::string> notes;

  // Only `keys`, so that a short file stays a short plan.
  std::string toml() const;
};

// The plan must have passed the rules. `flags`: the command line in the place of a file, for a
// framework that has both.
struct ExportInput {
  const config::Plan& plan;
  const model::ModelConfig& model;
  const planner::Layout& layout;
  bool flags = false;
};

// Why a key of the plan has no place: by its name, or by the beginning of it that ends with a dot.
struct Reason {
  std::string_view key;
  std::string_view why;
};

// `model`: the one that the plan will have, for what follows from its layers; null: not known.
struct ImportInput {
  std::string_view text;
  const std::string& file;
  const model::ModelConfig* model;
  Diagnostics& found;
};

struct Framework {
  std::string_view name;    // "torchtitan"
  std::string_view title;   // "torchtitan"
  std::string_view format;  // "TOML"
  bool has_flags = false;
  std::span<const Reason> reasons;
  Exported (*write)(const ExportInput& input);
  std::optional<Imported> (*read)(const ImportInput& input);
};

std::span<const Framework> frameworks();
const Framework* find_framework(std::string_view name);

Exported export_plan(const Framework& framework, const ExportInput& input);

// Any bytes are safe. Adds "exchange.*" and "plan.*" diagnostics with file, line and column;
// what the rules say about the plan is not asked here.
//
// What is lost is an error each ("exchange.lost"): a plan without it is another job's. With `force`
// it is a warning. `model`: the one that the plan will have, where it is known.
std::optional<Imported> import_plan(const Framework& framework, std::string_view text,
                                    const std::string& file, Diagnostics& found, bool force = false,
                                    const model::ModelConfig* model = nullptr);

// A size of the model by its name in Geometry, "num_hidden_layers"; 0 for what it has none of.
int64_t model_size(const model::ModelConfig& model, std::string_view config_key);

// Adds "exchange.model" where the file repeats a size that the model does not have, or names a
// model of another family or another number of parameters.
void compare_model(const Imported& imported, const model::ModelConfig& model, Diagnostics& found,
                   bool force = false);

}  // namespace am::exchange
