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
// input with the fewest requirements (`axes` rather than `mesh`): other errors are then found even
// if the mesh sizes do not form a world.
struct RuleContext {
  const config::Plan& plan;
  const model::ModelConfig* model = nullptr;
  const mesh::MeshSizes* axes = nullptr;  // the plan's pp, cp and tp; the other sizes are not set
  std::optional<int64_t> dp;              // number of data-parallel ranks
  const mesh::MeshSizes* mesh = nullptr;  // all mesh sizes, if they form a world
  // Layout of the plan on `mesh`. Without a mesh, the layout on the smallest world with the sizes
  // in `axes`.
  const layout::Layout* layout = nullptr;
};

// Inputs that a rule's check reads. A search runs the kMesh rules for each candidate layout.
enum class Needs {
  kMesh,    // the plan, the model's sizes, the mesh
  kLayout,  // additionally the layout, but not its number of layers
  kFiles,   // additionally files: data, weights, clusters, the text of config.json
};

struct Rule {
  std::string_view id;       // for example "tp.heads"
  std::string_view summary;  // one line that says what the rule requires
  std::string_view explain;  // why the rule exists and how to satisfy it; a few paragraphs
  Needs needs = Needs::kMesh;
  // Adds violations to `found`. Null if a loader reports the rule, for example "plan.key" or
  // "json.syntax".
  void (*check)(const RuleContext& context, Diagnostics& found);
};

// Returns all rules of automesh, without the rules of other frameworks.
std::span<const Rule* const> all_rules();
const Rule* find_rule(std::string_view id);

// Results of checking a loaded plan: its model config, mesh and layout, each absent if it could not
// be computed. check() runs all rules. `world_size`: number of ranks that the launcher started; 0:
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

// Results of checking a plan file. check_file() reports the loader's errors and the rules' errors
// together; a rule's error at a place where the loader reported one is dropped as its consequence.
// `plan` is absent if the file is not TOML. Throws Error(kIo) if the file cannot be read.
struct CheckedFile {
  std::optional<config::Plan> plan;
  CheckedPlan checked;
};
CheckedFile check_file(const std::filesystem::path& file,
                       const std::vector<config::Override>& overrides, int64_t world_size,
                       Diagnostics& found, config::Plugins plugins = config::Plugins::kRefused);

// As check_file, but calls `judge` instead of check(); for the rules of other frameworks.
using Judge = std::function<CheckedPlan(config::Plan& plan, Diagnostics& found)>;
CheckedFile check_file_by(const Judge& judge, const std::filesystem::path& file,
                          const std::vector<config::Override>& overrides, Diagnostics& found);

// Loads the plan's model. Reports an unreadable config as an error of the key `model.path`, and
// then returns nothing.
std::optional<model::ModelConfig> load_model(const config::Plan& plan, Diagnostics& found);

}  // namespace am::rules
