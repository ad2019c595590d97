// Converts plans to configurations of other frameworks and back.
//
//   const Framework* torchtitan = find_framework("torchtitan");
//   const Exported out = export_plan(*torchtitan, {plan, model, layout});
//   out.text;                                   // a torchtitan TOML file
//   out.lost;                                   // keys that it cannot express, and why
//   const auto in = import_plan(*torchtitan, out.text, "llama.toml", found);
//   in->toml();                                 // a plan
//
// An export is immediately imported again, and every difference from the plan is listed as lost.
// The import restores defaults that the file omits; notes name the sections that must be configured
// elsewhere. To add a framework, write NAME/config.cpp and NAME/config_reader.cpp and a line in
// registry.cpp.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "am/base/diagnostic.h"
#include "am/config/plan.h"
#include "am/layout/layout.h"
#include "am/model/config.h"

namespace am::frameworks {

// A key of the plan that the framework cannot express.
struct Lost {
  std::string key;    // "train.max_grad_norm"; in a nested table "strategy.mp_policy.reduce_dtype"
  std::string value;  // as JSON
  std::string why;
};

struct Exported {
  std::string text;
  std::vector<Lost> lost;
  std::vector<std::string> notes;  // what the user must add or know
};

// A setting of the framework that has no equivalent in a plan.
struct Ignored {
  std::string key;    // in the framework's naming
  std::string value;  // as JSON
  std::string why;
  Span span = {};
};

// A size of the model that the framework's file repeats.
struct Geometry {
  std::string key;  // in the framework's naming: "--num-layers"
  std::string_view config_key;
  int64_t value = 0;
  Span span;
};

// The framework's name of the model: "Qwen/Qwen3-0.6B", "llama3 8B", "LlamaDecoderLayer".
struct ModelName {
  std::string key;  // in the framework's naming
  std::string text;
  Span span;
};

struct Imported {
  config::Plan plan;
  std::vector<std::string> keys;  // plan keys that the file sets: "mesh.tp_size"
  std::vector<Ignored> ignored;   // harmless settings
  std::vector<Ignored> lost;      // settings that affect the layout or the numbers
  std::vector<Geometry> geometry;
  std::vector<ModelName> names;
  std::vector<std::string> notes;

  // Writes only `keys`, so that a short file becomes a short plan.
  std::string toml() const;
};

// The plan must have passed the rules. `flags`: write a command line instead of a file, for a
// framework that supports both.
struct ExportInput {
  const config::Plan& plan;
  const model::ModelConfig& model;
  const layout::Layout& layout;
  bool flags = false;
};

// Why a plan key cannot be exported. `key`: its name, or a prefix that ends with a dot.
struct Reason {
  std::string_view key;
  std::string_view why;
};

// `model`: the model of the resulting plan, for settings that depend on its layers; null: unknown.
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

std::span<const Framework> all_frameworks();
const Framework* find_framework(std::string_view name);

Exported export_plan(const Framework& framework, const ExportInput& input);

// Safe for arbitrary input. Adds "exchange.*" and "plan.*" diagnostics with file, line and column.
// Does not check the plan rules.
//
// Each lost setting is an error ("exchange.lost"), because a plan without it describes another job;
// with `force` a warning. `model`: the model of the resulting plan, if known.
std::optional<Imported> import_plan(const Framework& framework, std::string_view text,
                                    const std::string& file, Diagnostics& found, bool force = false,
                                    const model::ModelConfig* model = nullptr);

// Returns a size of the model by its name in Geometry, e.g. "num_hidden_layers"; 0 if the model has
// none.
int64_t model_size(const model::ModelConfig& model, std::string_view config_key);

// Adds "exchange.model" if the file repeats a size that differs from the model's, or names a model
// of another family or number of parameters.
void compare_model(const Imported& imported, const model::ModelConfig& model, Diagnostics& found,
                   bool force = false);

}  // namespace am::frameworks
