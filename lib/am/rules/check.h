// A rule, its inputs, and the functions that check a plan by all rules.
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

// Inputs of a rule. A pointer is null if its input could not be computed. A rule should read the
// input that can be computed for most plans, for example `axes` rather than `mesh`: the rule then
// also finds errors in plans with an error in the mesh sizes.
struct RuleContext {
  const config::Plan& plan;
  const model::ModelConfig* model = nullptr;
  const mesh::MeshSizes* axes = nullptr;  // the plan's pp, cp and tp; all other sizes are 1
  std::optional<int64_t> dp;              // number of data-parallel ranks
  const mesh::MeshSizes* mesh = nullptr;  // all mesh sizes; null after an error in them
  // Layout of the plan on `mesh` or, if `mesh` is null, on a mesh with the sizes in `axes`.
  const layout::Layout* layout = nullptr;
};

// Inputs that a rule's check reads. A search for plans checks the kMesh rules for each candidate,
// and the kLayout rules on a layout that usually has one layer of each kind.
enum class Needs {
  kMesh,    // the plan, the model's sizes, and the mesh
  kLayout,  // also the layout; the check must not depend on the number of layers
  kFiles,   // also files: data, weights, cluster files, or the text of config.json
};

struct Rule {
  std::string_view id;       // for example "tp.heads"
  std::string_view summary;  // what the rule requires, in one line
  std::string_view explain;  // why the rule exists and how to satisfy it; a few paragraphs
  Needs needs = Needs::kMesh;
  // Adds a diagnostic to `found` for each violation. Null if other code reports the rule, for
  // example the loader of plans ("plan.key").
  void (*check)(const RuleContext& context, Diagnostics& found);
};

// Returns all rules of automesh, without the rules of other frameworks.
std::span<const Rule* const> all_rules();
// Returns the rule with this id; null if there is no rule with this id.
const Rule* find_rule(std::string_view id);

// Results of checking a loaded plan: its model config, mesh and layout. Each is absent if it could
// not be computed. check() loads the model config that the plan's model.path names, and runs all
// rules. `world_size`: number of ranks that the launcher started; 0: unknown.
struct CheckedPlan {
  std::optional<model::ModelConfig> model;
  std::optional<mesh::MeshSizes> mesh;
  std::optional<layout::Layout> layout;
};
CheckedPlan check(const config::Plan& plan, int64_t world_size, Diagnostics& found);

// Does what check() does, but with a model config that is already loaded. If `model` is absent,
// only the rules that do not need a model have an effect.
CheckedPlan check_model(const config::Plan& plan, std::optional<model::ModelConfig> model,
                        Diagnostics& found, int64_t world_size = 0);

// Results of checking a plan file; `plan` is absent if the file is not TOML. check_file() reports
// the loader's and the rules' errors together. A rule's diagnostic is dropped if the loader
// reported an error at the same position of the file. Throws Error(kIo) if the file cannot be read.
struct CheckedFile {
  std::optional<config::Plan> plan;
  CheckedPlan checked;
};
CheckedFile check_file(const std::filesystem::path& file,
                       const std::vector<config::Override>& overrides, int64_t world_size,
                       Diagnostics& found, config::Plugins plugins = config::Plugins::kRefused);

// Does what check_file() does, but calls `judge` instead of check(), for example to check another
// framework's conditions.
using Judge = std::function<CheckedPlan(config::Plan& plan, Diagnostics& found)>;
CheckedFile check_file_by(const Judge& judge, const std::filesystem::path& file,
                          const std::vector<config::Override>& overrides, Diagnostics& found);

// Does what check_file() does for a plan whose TOML is `text`, for example the unsaved text of an
// editor. Diagnostics cite `file`, and relative paths are resolved against its folder; `file` is
// not read and need not exist.
CheckedFile check_text(std::string_view text, const std::string& file, Diagnostics& found);

// Loads the model config that the plan's model.path names. Returns nothing if model.path is empty.
// Also returns nothing after an error, and adds the error to `found`.
std::optional<model::ModelConfig> load_model(const config::Plan& plan, Diagnostics& found);

}  // namespace am::rules
