// The catalogue of rules, and the functions that run all of them.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "am/base/diagnostic.h"
#include "am/config/plan.h"
#include "am/layout/layout.h"
#include "am/mesh/layout.h"
#include "am/model/config.h"

namespace am::rules {

// Inputs of a rule. A pointer is null if its input could not be computed. A rule should use the
// input with the fewest requirements (`axes` rather than `mesh`), so that mesh sizes that do not
// form a world do not hide other errors.
struct RuleContext {
  const config::Plan& plan;
  const model::ModelConfig* model = nullptr;
  const mesh::MeshSizes* axes = nullptr;  // the plan's pp, cp and tp; other sizes are unset
  std::optional<int64_t> dp;              // number of data-parallel ranks
  const mesh::MeshSizes* mesh = nullptr;  // all sizes; they form a world
  // Layout of the plan on `mesh`; without a mesh, on the smallest world with these axes.
  const layout::Layout* layout = nullptr;
};

// Inputs that a rule's check reads. A search runs kMesh rules for each candidate layout.
enum class Needs {
  kMesh,    // the plan, the model's sizes, the mesh
  kLayout,  // also the layout, but not the number of its layers
  kFiles,   // also files: data, weights, clusters, the text of config.json
};

struct Rule {
  std::string_view id;       // "tp.heads"
  std::string_view summary;  // one line
  std::string_view explain;  // why the rule exists and how to satisfy it; a few paragraphs
  Needs needs = Needs::kMesh;
  // Adds violations to `found`. Null for rules that a loader reports ("plan.key", "json.syntax",
  // ...).
  void (*check)(const RuleContext& context, Diagnostics& found);
};

std::span<const Rule* const> all_rules();  // without other frameworks' rules
const Rule* find_rule(std::string_view id);

// Checks a loaded plan: model config, mesh, TP plan and all rules. `world_size`: the launcher's; 0:
// unknown.
struct CheckedPlan {
  std::optional<model::ModelConfig> model;
  std::optional<mesh::MeshSizes> mesh;
  std::optional<layout::Layout> layout;
};
CheckedPlan check(const config::Plan& plan, int64_t world_size, Diagnostics& found);

// As check, with a model that is already loaded; model.path is ignored.
CheckedPlan check_model(const config::Plan& plan, const model::ModelConfig& model,
                        Diagnostics& found);

// As check, for a plan file: reports the loader's and the rules' errors together. A rule's error at
// a place where the loader reported one is dropped as a consequence. `plan` is absent if the file
// is not TOML. Throws Error(kIo) if the file cannot be read.
struct CheckedFile {
  std::optional<config::Plan> plan;
  CheckedPlan checked;
};
CheckedFile check_file(const std::filesystem::path& file,
                       const std::vector<config::Override>& overrides, int64_t world_size,
                       Diagnostics& found, config::Plugins plugins = config::Plugins::kRefused);

// As check_file, but calls `judge` instead of the rules; for the rules of other frameworks.
using Judge = std::function<CheckedPlan(config::Plan& plan, Diagnostics& found)>;
CheckedFile check_file_by(const Judge& judge, const std::filesystem::path& file,
                          const std::vector<config::Override>& overrides, Diagnostics& found);

// Loads the plan's model. An unreadable config is a diagnostic of `model.path`. Returns nothing
// without a readable config.
std::optional<model::ModelConfig> load_model(const config::Plan& plan, Diagnostics& found);

}  // namespace am::rules
