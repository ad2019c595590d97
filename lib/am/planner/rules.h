// The catalogue of rules, and the check that runs them all.
#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "am/base/diagnostic.h"
#include "am/config/plan.h"
#include "am/mesh/layout.h"
#include "am/model/config.h"
#include "am/planner/layout.h"

namespace am::planner {

// What a rule may look at; absent is what could not be made. A rule asks for as little as it needs:
// `axes` rather than `mesh`, so that sizes that make no world do not hide what else is wrong.
struct RuleContext {
  const config::Plan& plan;
  const model::ModelConfig* model = nullptr;
  const mesh::MeshSizes* axes = nullptr;  // pp, cp and tp as written; the rest means nothing
  std::optional<int64_t> dp;              // data-parallel ranks
  const mesh::MeshSizes* mesh = nullptr;  // all sizes; they make a world
  // The plan on `mesh`; where there is none, on the smallest world with these axes.
  const Layout* layout = nullptr;
};

// What a rule's check reads. A search asks those that are content with the least of each candidate.
enum class Needs {
  kMesh,    // the plan, the sizes of its model, the mesh
  kLayout,  // the layout too, though not the number of its layers
  kFiles,   // what stands in files: data, weights, clusters, the config's own text
};

struct Rule {
  std::string_view id;       // "tp.heads"
  std::string_view summary;  // one line
  std::string_view explain;  // why it exists and how to satisfy it; a few paragraphs
  Needs needs = Needs::kMesh;
  // Adds what it finds. Null for rules that a loader reports ("plan.key", "json.syntax", ...).
  void (*check)(const RuleContext& context, Diagnostics& found);
};

std::span<const Rule* const> rules();
const Rule* find_rule(std::string_view id);

// Everything that is wrong with a loaded plan: model config, mesh, TP plan and every rule.
// `world_size`: a launcher's, or 0.
struct CheckedPlan {
  std::optional<model::ModelConfig> model;
  std::optional<mesh::MeshSizes> mesh;
  std::optional<Layout> layout;
};
CheckedPlan check(const config::Plan& plan, int64_t world_size, Diagnostics& found);

// The same with a model that has been loaded already, whatever model.path says.
CheckedPlan check_model(const config::Plan& plan, const model::ModelConfig& model,
                        Diagnostics& found);

// The same from a plan file, so that what the loader finds and what the rules find is reported in
// one run. A rule's error at the very place of a loader's is left out: it would only follow from
// it. `plan` is absent when the file is not TOML. Throws Error(kIo) when it cannot be read.
struct CheckedFile {
  std::optional<config::Plan> plan;
  CheckedPlan checked;
};
CheckedFile check_file(const std::filesystem::path& file,
                       const std::vector<config::Override>& overrides, int64_t world_size,
                       Diagnostics& found, config::Plugins plugins = config::Plugins::kRefused);

}  // namespace am::planner
