// am-plan show PLAN: draws the mesh and lists its process groups.
#include <algorithm>
#include <iterator>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "am/base/ranks.h"
#include "am/base/text.h"
#include "am/layout/layout.h"
#include "am/rules/check.h"
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

// Limits that keep the output small enough for a terminal.
constexpr int64_t kListedRanks = 8192;  // largest world size whose ranks are drawn and listed
constexpr int64_t kDrawnColumns = 64;   // largest tensor-parallel group that is drawn
constexpr int64_t kLongestRow = 16;     // largest number of ranks drawn in a row, except for tp

constexpr const char* kJsonGroups[] = {"tp",       "cp",    "pp", "dp",       "dp_replicate",
                                       "dp_shard", "dp_cp", "ep", "ep_shard", "dp_shard_cp"};

// Returns the largest number of nodes that a process group of this name spans, for example a "tp"
// group.
int64_t nodes_of_group(const MeshLayout& mesh, const std::string& name, int64_t ranks_per_node) {
  int64_t most = 1;
  for (const std::vector<int64_t>& ranks : mesh.groups(name)) {  // sorted ranks of a group
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

// Returns text about the axes whose groups cross nodes, for example "pp, dp_shard cross nodes";
// empty if no group crosses nodes.
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

// A run of process groups of equal size and stride, whose first ranks are evenly spaced. `ranks`
// are the ranks of group 0; group i begins at rank ranks.first + i * step.
struct GroupRun {
  am::RankRange ranks;
  int64_t groups = 1;
  int64_t step = 0;
};

// Combines consecutive groups that are alike and evenly spaced into GroupRuns. Returns nothing if
// the ranks of a group are not evenly spaced.
std::optional<std::vector<GroupRun>> runs_of(const std::vector<std::vector<int64_t>>& groups) {
  std::vector<GroupRun> runs;
  for (const std::vector<int64_t>& ranks : groups) {
    const auto range = am::rank_range(ranks);
    if (!range) return std::nullopt;
    if (!runs.empty()) {
      GroupRun& last = runs.back();
      const int64_t begun = last.ranks.first + (last.groups - 1) * last.step;
      const bool alike = range->stride == last.ranks.stride && range->count == last.ranks.count;
      if (alike && (last.groups == 1 || range->first - begun == last.step)) {
        last.step = range->first - begun;
        ++last.groups;
        continue;
      }
    }
    runs.push_back({*range});
  }
  return runs;
}

// Returns the groups of this name as JSON: one object {"first", "stride", "count", "groups",
// "step"} for each GroupRun if there are more than kListedRanks ranks and each group is evenly
// spaced; otherwise a list of ranks for each group.
am::Json groups_json(const MeshLayout& mesh, const char* name) {
  const auto groups = mesh.groups(name);
  if (mesh.world_size() <= kListedRanks) return groups;
  const auto runs = runs_of(groups);
  if (!runs) return groups;
  am::Json json = am::Json::array();
  for (const GroupRun& run : *runs) {
    json.push_back({{"first", run.ranks.first},
                    {"stride", run.ranks.stride},
                    {"count", run.ranks.count},
                    {"groups", run.groups},
                    {"step", run.step}});
  }
  return json;
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
  std::vector<const char*> names(std::begin(kJsonGroups), std::end(kJsonGroups));
  if (mesh.sizes().ep > 1 && mesh.sizes().etp > 1) names.push_back("etp");
  for (const char* name : names) {
    groups[name] = groups_json(mesh, name);
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

// Describes how the ranks of a pipeline stage are drawn: each row has consecutive ranks along
// `axis`, the innermost axis with more than one rank.
struct Rows {
  Axis axis = Axis::kTp;
  int64_t length = 1;  // number of ranks in a row
  // Whether each row contains a complete group along `axis`. Columns have titles only if `whole` is
  // true and rows have several ranks.
  bool whole = true;
  bool aligned = true;  // whether the ranks of each row are on one node
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
  // A tensor-parallel group is always one row. Any other group that is too long, or whose size does
  // not divide the number of ranks per node, is split into rows that do not cross nodes.
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

// Returns the title of the row that begins at `rank`, for example "replica 0 shard 8-15": the row's
// index, or range of indices, on each axis of the stage. Omits axes of size 1. Omits the axis of
// the columns if each row contains a complete group.
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

// Draws the pipeline stage `pp`. Each node has a box, except in two cases. If rows cross nodes, the
// stage has a single box. If the stage has several nodes and each row is a node, the stage also has
// a single box, and the title of each row names the row's node.
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

// Purpose of each process group, printed next to its ranks.
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
    {"etp", "cuts each expert's matrices"},
};

// Returns the ranks as short text, for example "0-7". More than four evenly spaced ranks that are
// not consecutive are shortened to the first two and the last, for example "0, 8 .. 56".
std::string ranks_text(const std::vector<int64_t>& ranks) {
  const auto range = am::rank_range(ranks);
  if (range && range->count > 4 && range->stride > 1) {
    return am::cat(ranks[0], ", ", ranks[1], " .. ", ranks.back());
  }
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
    const std::string_view word = name;
    const bool expert = word.substr(0, 2) == "ep" || word == "etp";
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
  // The drawing needs only the sizes of the mesh, so other errors in a readable plan are ignored.
  if (!file || !file->checked.mesh.has_value()) return am_apps::refuse(found, output);
  const MeshLayout mesh(*file->checked.mesh);
  const int64_t ranks_per_node = file->plan->mesh.ranks_per_node;
  const am::rules::CheckedPlan& checked = file->checked;
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
