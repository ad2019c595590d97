// am-plan show PLAN: the mesh as a picture, and its groups.
#include <algorithm>
#include <numeric>
#include <utility>

#include "am/base/ranks.h"
#include "am/base/text.h"
#include "am/planner/layout.h"
#include "am/planner/rules.h"
#include "am/term/mesh_view.h"
#include "am/term/printable.h"
#include "am/term/shard_map.h"
#include "am/term/table.h"
#include "commands.h"
#include "plan_input.h"
#include "text.h"

namespace am_plan {
namespace {

using am::mesh::Axis;
using am::mesh::MeshLayout;
using am::mesh::MeshSizes;

// What still fits a terminal.
constexpr int64_t kListedRanks = 8192;
constexpr int64_t kDrawnColumns = 64;
constexpr int64_t kLongestRow = 16;

constexpr const char* kJsonGroups[] = {"tp",       "cp",    "pp", "dp",       "dp_replicate",
                                       "dp_shard", "dp_cp", "ep", "ep_shard", "dp_shard_cp"};

// The most nodes that one group of this name has ranks on.
int64_t nodes_of_group(const MeshLayout& mesh, const std::string& name, int64_t ranks_per_node) {
  int64_t most = 1;
  for (const std::vector<int64_t>& ranks : mesh.groups(name)) {  // each ascends
    int64_t nodes = 0;
    int64_t last = -1;
    for (const int64_t rank : ranks) {
      if (rank / ranks_per_node != last) ++nodes;
      last = rank / ranks_per_node;
    }
    most = std::max(most, nodes);
  }
  return most;
}

// "dp_shard and pp cross nodes"; nothing where none does.
std::string crossing_text(const MeshLayout& mesh, int64_t ranks_per_node) {
  std::vector<std::string> names;
  for (const Axis axis : am::mesh::kAxes) {
    const std::string name = am::mesh::to_string(axis);
    if (mesh.sizes().size(axis) > 1 && nodes_of_group(mesh, name, ranks_per_node) > 1) {
      names.push_back(name);
    }
  }
  if (names.empty()) return {};
  return am::cat(am::join(names, ", "), names.size() == 1 ? " crosses" : " cross", " nodes");
}

am::Json to_json(const MeshLayout& mesh, int64_t ranks_per_node) {
  am::Json dims = am::Json::array();
  am::Json sizes = am::Json::array();
  for (const am::mesh::Axis axis : am::mesh::kAxes) {
    dims.push_back(am::mesh::to_string(axis));
    sizes.push_back(mesh.sizes().size(axis));
  }
  am::Json groups = am::Json::object();
  am::Json spans = am::Json::object();
  for (const char* name : kJsonGroups) {
    groups[name] = mesh.groups(name);
    spans[name] = nodes_of_group(mesh, name, ranks_per_node);
  }
  const int64_t nodes = (mesh.world_size() + ranks_per_node - 1) / ranks_per_node;
  am::Json json = am::Json::object();
  json["mesh"] = {{"dims", std::move(dims)}, {"sizes", std::move(sizes)}};
  json["world_size"] = mesh.world_size();
  json["nodes"] = nodes;
  json["ranks_per_node"] = ranks_per_node;
  json["groups"] = std::move(groups);
  json["nodes_of_group"] = std::move(spans);
  return json;
}

// How a stage's ranks are laid out in rows: along its innermost axis that has more than one rank.
struct Rows {
  Axis axis = Axis::kTp;
  int64_t length = 1;   // ranks of a row
  bool whole = true;    // a row is the whole axis, so columns have titles
  bool aligned = true;  // no row crosses nodes
};

const char* short_name(Axis axis) {
  if (axis == Axis::kDpReplicate) return "replica";
  return axis == Axis::kDpShard ? "shard" : am::mesh::to_string(axis);
}

Rows rows_of(const MeshSizes& sizes, int64_t ranks_per_node) {
  Rows rows;
  for (const Axis axis : {Axis::kDpReplicate, Axis::kDpShard, Axis::kCp, Axis::kTp}) {
    if (sizes.size(axis) > 1) rows.axis = axis;
  }
  const int64_t size = sizes.size(rows.axis);
  rows.length = size;
  // Tensor-parallel groups stay together; a longer axis is broken so that rows fit into nodes.
  if (rows.axis != Axis::kTp && (size > kLongestRow || ranks_per_node % size != 0)) {
    rows.length = 1;
    const int64_t common = std::gcd(size, ranks_per_node);
    for (int64_t length = 1; length <= std::min(common, kLongestRow); ++length) {
      if (common % length == 0) rows.length = length;
    }
  }
  rows.whole = rows.length == size;
  rows.aligned = ranks_per_node % rows.length == 0;
  return rows;
}

// "replica 0 shard 8-15": where a row is on the axes between pp and tp that have more than one
// rank.
std::string row_title(const MeshLayout& mesh, const Rows& rows, int64_t rank) {
  const auto at = mesh.coordinate(rank);
  std::vector<std::string> parts;
  for (size_t i = 1; i < am::mesh::kAxes.size(); ++i) {
    const Axis axis = am::mesh::kAxes[i];
    const bool own = axis == rows.axis;
    if (mesh.sizes().size(axis) == 1 || (own && rows.whole)) continue;
    parts.push_back(am::cat(short_name(axis), " ", at[i]));
    if (own && rows.length > 1) parts.back() += am::cat("-", at[i] + rows.length - 1);
  }
  return am::join(parts, " ");
}

am::term::GridBox new_box(std::string title, const Rows& rows) {
  am::term::GridBox box;
  box.title = std::move(title);
  if (!rows.whole || rows.length == 1) return box;
  for (int64_t i = 0; i < rows.length; ++i) {
    const char* gap = rows.axis == Axis::kTp || rows.axis == Axis::kCp ? "" : " ";
    box.columns.push_back(am::cat(short_name(rows.axis), gap, i));
  }
  return box;
}

// One stage, in boxes of nodes. Where rows cross nodes, or are nodes, the stage is one box; rows
// that are a node say so.
am::term::GridStack stage_picture(const MeshLayout& mesh, int64_t pp, int64_t ranks_per_node) {
  const Rows rows = rows_of(mesh.sizes(), ranks_per_node);
  const int64_t count = mesh.world_size() / mesh.sizes().pp;
  const int64_t first = pp * count;
  const int64_t first_node = first / ranks_per_node;
  const int64_t last_node = (first + count - 1) / ranks_per_node;
  const bool row_is_node = rows.length == ranks_per_node && last_node > first_node;
  const bool by_node = rows.aligned && !row_is_node;
  am::term::GridStack stack;
  if (mesh.sizes().pp > 1) stack.title = am::cat("pp ", pp);
  int64_t node = -1;
  for (int64_t rank = first; rank < first + count; rank += rows.length) {
    const int64_t here = rank / ranks_per_node;
    if (stack.boxes.empty() || (by_node && here != node)) {
      const bool one = by_node || first_node == last_node;
      stack.boxes.push_back(new_box(
          one ? am::cat("node ", here) : am::cat("nodes ", first_node, "-", last_node), rows));
      node = here;
    }
    am::term::GridBox& box = stack.boxes.back();
    const std::string title = row_title(mesh, rows, rank);
    const char* colon = title.empty() ? "" : ": ";
    box.rows.push_back(row_is_node ? am::cat("node ", here, colon, title) : title);
    std::vector<std::string>& cells = box.cells.emplace_back();
    for (int64_t i = 0; i < rows.length; ++i) cells.push_back(am::cat(rank + i));
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
    {"dp_cp", "sums gradients"},
    {"ep", "holds different experts"},
    {"ep_shard", "shards the experts"},
};

// "0-7"; "0, 8 .. 56" when the ranks are evenly spaced, which most groups are.
std::string ranks_text(const std::vector<int64_t>& ranks) {
  const int64_t step = ranks.size() > 1 ? ranks[1] - ranks[0] : 1;
  bool even = ranks.size() > 4 && step > 1;
  for (size_t i = 1; i < ranks.size(); ++i) even = even && ranks[i] - ranks[i - 1] == step;
  if (even) return am::cat(ranks[0], ", ", ranks[1], " .. ", ranks.back());
  return am::rank_list(ranks);
}

std::string examples(const MeshLayout& mesh, const char* name) {
  const int64_t groups = mesh.world_size() / mesh.group_size(name);
  std::vector<std::string> shown;
  for (int64_t rank = 0; rank < mesh.world_size() && shown.size() < 3; ++rank) {
    if (mesh.index(rank, name) == 0) shown.push_back(ranks_text(mesh.group(rank, name)));
  }
  std::string text;
  for (const std::string& ranks : shown) text += am::cat(text.empty() ? "{" : " {", ranks, "}");
  return static_cast<int64_t>(shown.size()) < groups ? text + " ..." : text;
}

std::string group_table(const MeshLayout& mesh, int64_t ranks_per_node,
                        const am::term::Style& style) {
  am::term::Table table({{"group"},
                         {"size", am::term::Align::kRight},
                         {"groups", am::term::Align::kRight},
                         {"nodes", am::term::Align::kRight},
                         {"what it does", am::term::Align::kWrap},
                         {"ranks", am::term::Align::kWrap}});
  for (const auto& [name, role] : kRoles) {
    const int64_t size = mesh.group_size(name);
    const bool expert = std::string_view(name).substr(0, 2) == "ep";
    if (size == 1 || (expert && mesh.sizes().ep == 1)) continue;
    table.add({{name, am::term::Role::kBold},
               am::cat(size),
               am::cat(mesh.world_size() / size),
               am::cat(nodes_of_group(mesh, name, ranks_per_node)),
               role,
               examples(mesh, name)});
  }
  return table.empty() ? std::string() : "\n" + table.text(style);
}

std::string picture(const MeshLayout& mesh, int64_t ranks_per_node, const am::term::Style& style) {
  if (mesh.world_size() > kListedRanks || mesh.sizes().tp > kDrawnColumns) {
    return "(too many ranks to draw)\n";
  }
  std::vector<am::term::GridStack> stages;
  for (int64_t pp = 0; pp < mesh.sizes().pp; ++pp) {
    stages.push_back(stage_picture(mesh, pp, ranks_per_node));
  }
  return am::term::draw_grid(stages, style);
}

int run_show(const PlanOptions& options, const Output& output) {
  am::Diagnostics found;
  const auto file = check_plan(options.files.front(), options, found);
  // A mesh needs nothing but its sizes: what is wrong elsewhere in a readable plan is not asked
  // about here.
  if (!file || !file->checked.mesh.has_value()) return am_apps::refuse(found, output);
  const MeshLayout mesh(*file->checked.mesh);
  const int64_t ranks_per_node = file->plan->mesh.ranks_per_node;
  const am::planner::CheckedPlan& checked = file->checked;
  const auto lacks =
      what_am_run_lacks(*file->plan, checked.model.has_value() ? &*checked.model : nullptr);
  if (output.json) {
    am::Json json = to_json(mesh, ranks_per_node);
    if (!lacks.empty()) json["unsupported"] = lacks;
    am_apps::print(json);
    return am_apps::kFine;
  }
  const int64_t nodes = (mesh.world_size() + ranks_per_node - 1) / ranks_per_node;
  const std::string crossing = crossing_text(mesh, ranks_per_node);
  print_folded(
      am::cat(mesh_text(mesh.sizes(), output.out), ", ", nodes, nodes == 1 ? " node" : " nodes",
              " of ", ranks_per_node, crossing.empty() ? "" : "; ", crossing, "\n\n",
              picture(mesh, ranks_per_node, output.out),
              group_table(mesh, ranks_per_node, output.out),
              lacks.empty() ? std::string()
                            : am::cat("\nThis version of am-run does not run it: ",
                                      am::term::echo(am::join(lacks, ", ")), "\n")),
      output.out);
  return am_apps::kFine;
}

Run declare_show(CLI::App& command, SharedOptions& shared) {
  add_plan(command, shared);
  return [&shared](const Output& output) { return run_show(shared.plan, output); };
}

}  // namespace

const Command kShowCommand = {
    .name = "show",
    .summary = "Draw the mesh: ranks, nodes and groups",
    .example = "am-plan show plan.toml --world-size 64",
    .declare = declare_show,
};

}  // namespace am_plan
