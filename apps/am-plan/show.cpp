// am-plan show PLAN: the mesh as a picture, and its groups.
#include <utility>

#include "am/base/text.h"
#include "am/planner/layout.h"
#include "am/planner/rules.h"
#include "am/term/mesh_view.h"
#include "am/term/shard_map.h"
#include "am/term/table.h"
#include "commands.h"
#include "text.h"

namespace am_plan {
namespace {

using am::mesh::MeshLayout;
using am::mesh::MeshSizes;

constexpr const char* kJsonGroups[] = {"tp",          "cp",     "pp", "dp",       "dp_replicate",
                                       "dp_shard",    "dp_cp",  "ep", "ep_shard", "dp_shard_cp"};

am::Json to_json(const MeshLayout& mesh, int64_t ranks_per_node) {
  am::Json dims = am::Json::array();
  am::Json sizes = am::Json::array();
  for (const am::mesh::Axis axis : am::mesh::kAxes) {
    dims.push_back(am::mesh::to_string(axis));
    sizes.push_back(mesh.sizes().size(axis));
  }
  am::Json groups = am::Json::object();
  for (const char* name : kJsonGroups) groups[name] = mesh.groups(name);
  const int64_t nodes = (mesh.world_size() + ranks_per_node - 1) / ranks_per_node;
  am::Json json = am::Json::object();
  json["mesh"] = {{"dims", std::move(dims)}, {"sizes", std::move(sizes)}};
  json["world_size"] = mesh.world_size();
  json["nodes"] = nodes;
  json["ranks_per_node"] = ranks_per_node;
  json["groups"] = std::move(groups);
  return json;
}

// "rep 0 shard 1": a row's place on the axes between pp and tp that have more than one rank.
std::string row_title(const MeshSizes& sizes, const std::array<int64_t, 5>& at) {
  std::vector<std::string> parts;
  if (sizes.dp_replicate > 1) parts.push_back(am::cat("replica ", at[1]));
  if (sizes.dp_shard > 1) parts.push_back(am::cat("shard ", at[2]));
  if (sizes.cp > 1) parts.push_back(am::cat("cp ", at[3]));
  return am::join(parts, " ");
}

am::term::GridBox new_box(std::string title, const MeshSizes& sizes) {
  am::term::GridBox box;
  box.title = std::move(title);
  if (sizes.tp > 1) {
    for (int64_t i = 0; i < sizes.tp; ++i) box.columns.push_back(am::cat("tp", i));
  }
  return box;
}

// One stage: rows of tp ranks, in boxes of nodes. Where a row crosses nodes the stage is one box.
am::term::GridStack stage_picture(const MeshLayout& mesh, int64_t pp, int64_t ranks_per_node) {
  const MeshSizes& sizes = mesh.sizes();
  const int64_t count = mesh.world_size() / sizes.pp;
  const int64_t first = pp * count;
  const bool rows_fit = ranks_per_node % sizes.tp == 0 && (first % ranks_per_node) % sizes.tp == 0;
  am::term::GridStack stack;
  if (sizes.pp > 1) stack.title = am::cat("pp ", pp);
  int64_t node = -1;
  for (int64_t rank = first; rank < first + count; rank += sizes.tp) {
    const int64_t here = rank / ranks_per_node;
    if (rows_fit ? here != node : stack.boxes.empty()) {
      const int64_t last = (first + count - 1) / ranks_per_node;
      stack.boxes.push_back(new_box(rows_fit || last == here ? am::cat("node ", here)
                                                             : am::cat("nodes ", here, "-", last),
                                    sizes));
      node = here;
    }
    am::term::GridBox& box = stack.boxes.back();
    box.rows.push_back(row_title(sizes, mesh.coordinate(rank)));
    std::vector<std::string>& cells = box.cells.emplace_back();
    for (int64_t i = 0; i < sizes.tp; ++i) cells.push_back(am::cat(rank + i));
  }
  return stack;
}

// What each group is there for, beside its ranks.
constexpr std::pair<const char*, const char*> kRoles[] = {
    {"tp", "cuts each layer's matrices"},
    {"cp", "cuts the sequence"},
    {"pp", "cuts the layers into stages"},
    {"dp", "reads different samples"},
    {"dp_replicate", "holds copies of the shards"},
    {"dp_shard_cp", "shards parameters and states"},
    {"dp_cp", "sums loss and gradients"},
    {"ep", "holds different experts"},
    {"ep_shard", "shards the experts"},
};

std::string examples(const MeshLayout& mesh, const char* name) {
  const int64_t groups = mesh.world_size() / mesh.group_size(name);
  std::vector<std::string> shown;
  for (int64_t rank = 0; rank < mesh.world_size() && shown.size() < 3; ++rank) {
    if (mesh.index(rank, name) == 0) shown.push_back(am::term::rank_list(mesh.group(rank, name)));
  }
  std::string text;
  for (const std::string& ranks : shown) text += am::cat(text.empty() ? "{" : " {", ranks, "}");
  return static_cast<int64_t>(shown.size()) < groups ? text + " ..." : text;
}

std::string group_table(const MeshLayout& mesh, const am::term::Style& style) {
  am::term::Table table({{"group"},
                         {"size", am::term::Align::kRight},
                         {"groups", am::term::Align::kRight},
                         {"what it does"},
                         {"ranks"}});
  for (const auto& [name, role] : kRoles) {
    const int64_t size = mesh.group_size(name);
    const bool expert = std::string_view(name).substr(0, 2) == "ep";
    if (size == 1 || (expert && mesh.sizes().ep == 1)) continue;
    table.add({{name, am::term::Role::kBold},
               am::cat(size),
               am::cat(mesh.world_size() / size),
               role,
               examples(mesh, name)});
  }
  return table.empty() ? std::string() : "\n" + table.text(style);
}

}  // namespace

int run_show(const PlanOptions& options, const Output& output) {
  am::Diagnostics found;
  const auto file =
      am::planner::check_file(options.files.front(), options.overrides, options.world_size, found);
  // A mesh needs nothing but its sizes: what is wrong elsewhere in a readable plan is not asked about here.
  if (!file.checked.mesh.has_value()) return am_apps::refuse(found, output);
  const MeshLayout mesh(*file.checked.mesh);
  const int64_t ranks_per_node = file.plan->mesh.ranks_per_node;
  if (output.json) {
    am_apps::print(to_json(mesh, ranks_per_node));
    return am_apps::kFine;
  }
  const int64_t nodes = (mesh.world_size() + ranks_per_node - 1) / ranks_per_node;
  std::vector<am::term::GridStack> stages;
  // Further stages would not be drawn.
  for (int64_t pp = 0; pp < std::min<int64_t>(mesh.sizes().pp, 64); ++pp) {
    stages.push_back(stage_picture(mesh, pp, ranks_per_node));
  }
  am_apps::print(am::cat(mesh_text(mesh.sizes(), output.out), ", ", nodes,
                         nodes == 1 ? " node" : " nodes", " of ", ranks_per_node, "\n\n",
                         am::term::draw_grid(stages, output.out), group_table(mesh, output.out)));
  return am_apps::kFine;
}

}  // namespace am_plan
