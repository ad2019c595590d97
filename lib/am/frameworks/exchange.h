// Converts plans to configuration files of other frameworks, and such files to plans.
//
//   const Framework* torchtitan = find_framework("torchtitan");
//   const Exported out = export_plan(*torchtitan, {plan, model, layout});
//   out.text;                                   // a torchtitan TOML file
//   out.lost;                                   // keys that the file cannot express
//   const auto in = import_plan(*torchtitan, out.text, "llama.toml", found);
//   in->toml();                                 // a plan
//
// export_plan() imports its own output again, and lists every difference from the plan as lost.
// During an import, settings that the file omits get the framework's defaults. Notes list what the
// user must configure elsewhere. To add a framework, define its Framework object in NAME/config.cpp
// (and a long import in NAME/config_reader.cpp), declare the object in frameworks.h, and list it in
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
  // For example "train.max_grad_norm"; for a nested table, the path to the member, for example
  // "strategy.mp_policy.reduce_dtype".
  std::string key;
  std::string value;  // the plan's value, as JSON
  std::string why;
};

struct Exported {
  std::string text;
  std::vector<Lost> lost;
  std::vector<std::string> notes;  // sentences for the user: what must be configured elsewhere
};

// A setting of the framework's file that a plan cannot express.
struct Ignored {
  std::string key;    // the framework's name of the setting
  std::string value;  // the setting's value, as JSON
  std::string why;
  Span span = {};
};

// A size of the model in the framework's file. The model's config.json contains the size too.
struct Geometry {
  std::string key;              // the framework's name of the size, for example "--num-layers"
  std::string_view config_key;  // key in config.json, for example "num_hidden_layers"
  int64_t value = 0;
  Span span;
};

// A setting whose value names a model or its class, for example "Qwen/Qwen3-0.6B", "llama3 8B" or
// "LlamaDecoderLayer".
struct ModelName {
  std::string key;   // the framework's name of the setting
  std::string text;  // the setting's value
  Span span;
};

struct Imported {
  config::Plan plan;
  std::vector<std::string> keys;  // plan keys that the import sets, for example "mesh.tp_size"
  std::vector<Ignored> ignored;   // settings that change neither the layout nor the computed values
  std::vector<Ignored> lost;      // settings that change the layout or the computed values
  std::vector<Geometry> geometry;
  std::vector<ModelName> names;
  std::vector<std::string> notes;

  // Returns the plan as TOML. The text contains only `keys`: the keys that the file sets, and the
  // keys that get the framework's default. A short file thus becomes a short plan.
  std::string toml() const;
};

// Input of an export. The plan must satisfy automesh's rules. `flags`: whether to write
// command-line flags instead of a file; has no effect for frameworks without has_flags.
struct ExportInput {
  const config::Plan& plan;
  const model::ModelConfig& model;
  const layout::Layout& layout;
  bool flags = false;
};

// The reason why a plan key cannot be exported. `key`: the plan key, or a prefix of plan keys that
// ends with a dot, for example "pipeline.".
struct Reason {
  std::string_view key;
  std::string_view why;
};

// Input of an import. `text`: the contents of the framework's file. `model`: the model of the
// resulting plan, on whose layers some settings depend; null: unknown.
struct ImportInput {
  std::string_view text;
  const std::string& file;
  const model::ModelConfig* model;
  Diagnostics& found;
};

struct Framework {
  std::string_view name;    // name on the command line, for example "megatron"
  std::string_view title;   // name in messages, for example "Megatron-LM"
  std::string_view format;  // format of the framework's files, for example "YAML"
  bool has_flags = false;   // whether an export can write command-line flags instead of a file
  std::span<const Reason> reasons;
  Exported (*write)(const ExportInput& input);
  std::optional<Imported> (*read)(const ImportInput& input);
};

std::span<const Framework> all_frameworks();
// Returns the framework with this name on the command line; null if there is none.
const Framework* find_framework(std::string_view name);

// Converts a plan to the framework's file or flags. Exported::lost lists all plan keys whose values
// the text does not express.
Exported export_plan(const Framework& framework, const ExportInput& input);

// Converts the text of a framework's file to a plan. Returns nullopt after an error. The text may
// come from an untrusted source. Adds diagnostics "exchange.*" and "plan.*" with file, line and
// column. Does not check automesh's rules.
//
// Each lost setting is an error "exchange.lost", because a plan without the setting describes
// another job. With `force`, the error is only a warning. `model`: the model of the resulting plan;
// null: unknown.
std::optional<Imported> import_plan(const Framework& framework, std::string_view text,
                                    const std::string& file, Diagnostics& found, bool force = false,
                                    const model::ModelConfig* model = nullptr);

// Returns the model's size with this key in config.json (Geometry::config_key), for example
// "num_hidden_layers"; 0 for any other key, and for sizes of experts in a dense model.
int64_t model_size(const model::ModelConfig& model, std::string_view config_key);

// Compares a model with the sizes and model names in an imported file. Adds an error
// "exchange.model" for each size that differs, and for each name of another model family or size.
// With `force`, the errors are only warnings.
void compare_model(const Imported& imported, const model::ModelConfig& model, Diagnostics& found,
                   bool force = false);

}  // namespace am::frameworks
