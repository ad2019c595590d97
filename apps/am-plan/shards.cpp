// am-plan shards PLAN: prints which part of each parameter a rank stores.
#include <map>
#include <memory>
#include <utility>

#include "am/base/text.h"
#include "am/term/shard_map.h"
#include "am/term/table.h"
#include "commands.h"
#include "plan_input.h"
#include "text.h"

namespace am_plan {
namespace {

struct ShardsOptions {
  std::optional<int64_t> rank;
  std::string glob = "*";
};

using am::layout::Layout;
using am::layout::ParameterLayout;

// Largest world size for which the shards of all ranks are drawn.
constexpr int64_t kDrawnRanks = 1024;

struct Shard {
  const ParameterLayout* parameter;
  int layer;
  int64_t rank;
  am::Shape local;  // shape of the rank's shard
  // Boxes of the shard in the whole parameter; several if tp cuts the slices of a fused matrix, for
  // example the queries, keys and values, separately.
  std::vector<am::mesh::Box> boxes;
};

std::vector<am::mesh::Box> boxes_of(const ParameterLayout& parameter, const Layout& layout,
                                    int64_t rank) {
  std::vector<am::mesh::Box> boxes;
  for (am::layout::LocalShard& part : parameter.parts(layout.mesh, rank)) {
    boxes.push_back(std::move(part.box));
  }
  return boxes;
}

std::vector<Shard> select(const ShardsOptions& options, const Layout& layout) {
  std::vector<Shard> shards;
  for (size_t i = 0; i < layout.parameters.size(); ++i) {
    const ParameterLayout& parameter = layout.parameters[i];
    if (!am::glob_match(options.glob, parameter.name)) continue;
    if (options.rank.has_value() && !layout.holds(*options.rank, parameter)) continue;
    const int64_t rank = options.rank.value_or(layout.first_holder(parameter));
    shards.push_back({&parameter, layout.inventory.parameters[i].layer, rank,
                      parameter.own_shape(layout.mesh, rank), boxes_of(parameter, layout, rank)});
  }
  return shards;
}

am::Json to_json(const Shard& shard, const Layout& layout) {
  am::Json placements = am::Json::object();
  for (const auto& [axis, placement] : shard.parameter->placements(layout.mesh)) {
    placements[axis] = to_string(placement);
  }
  am::Json json = am::Json::object();
  json["name"] = shard.parameter->name;
  json["shape"] = shard.parameter->shape;
  json["placements"] = std::move(placements);
  json["local_shape"] = shard.local;
  json["local_offset"] = shard.boxes.front().offset;
  if (shard.boxes.size() > 1) {
    for (const am::mesh::Box& box : shard.boxes) {
      json["boxes"].push_back({{"offset", box.offset}, {"shape", box.shape}});
    }
  }
  json["stage"] = shard.parameter->stage;
  json["rank"] = shard.rank;
  json["stored_elements"] = shard.parameter->stored_numel(layout.mesh, shard.rank);
  return json;
}

std::string placement_text(const ParameterLayout& parameter, const am::mesh::MeshLayout& mesh) {
  std::vector<std::string> parts;
  for (const auto& [axis, placement] : parameter.placements(mesh)) {
    parts.push_back(am::cat(axis, ": ", to_string(placement)));
  }
  return parts.empty() ? "whole" : am::join(parts, ", ");
}

// A table row: all parameters that differ only in layer and expert and are sharded alike.
struct Row {
  std::string name;   // name of the parameters, with "*" for the numbers of layers and experts
  std::string first;  // full name of the row's first parameter
  std::string shape, placements, local, offset;
  int times = 0;
};

Row row_of(const Shard& shard, const Layout& layout) {
  Row row;
  row.name = row.first = shard.parameter->name;
  row.name = am::model::any_layer_name(row.name, shard.layer);
  row.shape = am::shape_text(shard.parameter->shape);
  row.placements = placement_text(*shard.parameter, layout.mesh);
  row.local = am::shape_text(shard.local);
  std::vector<std::string> offsets;
  for (const am::mesh::Box& box : shard.boxes) offsets.push_back(am::shape_text(box.offset));
  row.offset = am::join(offsets, ", ");
  row.times = 1;
  return row;
}

std::string table_of(const std::vector<Shard>& shards, const Layout& layout,
                     const am::term::Style& style) {
  std::vector<Row> rows;
  std::map<std::string, size_t> known;
  for (const Shard& shard : shards) {
    Row row = row_of(shard, layout);
    const std::string key =
        am::cat(row.name, "|", row.shape, "|", row.placements, "|", row.local, "|", row.offset);
    const auto [at, fresh] = known.emplace(key, rows.size());
    if (fresh) {
      rows.push_back(std::move(row));
    } else {
      ++rows[at->second].times;
    }
  }
  am::term::Table table({{"parameter", am::term::Align::kWrap},
                         {"times", am::term::Align::kRight},
                         {"shape", am::term::Align::kWrap},
                         {"placements", am::term::Align::kWrap},
                         {"local shape", am::term::Align::kWrap},
                         {"offset", am::term::Align::kWrap}});
  for (const Row& row : rows) {
    const bool in_layers = row.name != row.first;
    table.add({row.times == 1 ? row.first : row.name,
               in_layers ? am::cat(row.times) : std::string(),
               row.shape,
               {row.placements, am::term::Role::kAccent},
               row.local,
               row.offset});
  }
  return table.text(style);
}

std::string map_of(const Shard& shard, const Layout& layout, const am::term::Style& style) {
  if (layout.mesh.world_size() > kDrawnRanks) return {};
  std::vector<am::term::RankBox> boxes;
  for (int64_t rank = 0; rank < layout.mesh.world_size(); ++rank) {
    if (!layout.holds(rank, *shard.parameter)) continue;
    for (const am::mesh::Box& box : boxes_of(*shard.parameter, layout, rank)) {
      boxes.push_back({rank, box.offset, box.shape});
    }
  }
  return "\n" + am::term::shard_map(shard.parameter->shape, boxes, style);
}

[[noreturn]] void nothing_matches(const ShardsOptions& options, const Layout& layout) {
  std::vector<std::string> names;
  for (const ParameterLayout& parameter : layout.parameters) names.push_back(parameter.name);
  const auto near = am::nearest(options.glob, names);
  throw am::Error(am::ErrorKind::kPlan, am::cat("no parameter matches \"", options.glob, "\""),
                  near.has_value() ? am::cat("did you mean ", *near, "?")
                                   : "a GLOB such as '*.q_proj.weight' matches whole names");
}

int run_shards(const PlanOptions& plan, const ShardsOptions& options, const Output& output) {
  int status = am_apps::kFine;
  const auto input = load_input(plan, output, status);
  if (!input.has_value()) return status;
  const Layout& layout = input->layout;
  require_rank(options.rank, layout);
  const std::vector<Shard> shards = select(options, layout);
  const bool elsewhere = options.rank.has_value() && options.glob == "*";
  if (shards.empty() && !elsewhere) nothing_matches(options, layout);
  if (output.json) {
    am::Json parameters = am::Json::array();
    for (const Shard& shard : shards) parameters.push_back(to_json(shard, layout));
    am::Json json = am::Json::object();
    json["parameters"] = std::move(parameters);
    am_apps::print(json);
    return am_apps::kFine;
  }
  const std::string who = options.rank.has_value() ? am::cat("rank ", *options.rank, " of ") : "";
  std::string text = am::cat(who, mesh_text(layout.mesh.sizes(), output.out), "\n\n",
                             table_of(shards, layout, output.out));
  if (shards.size() == 1) text += map_of(shards.front(), layout, output.out);
  print_folded(text, output.out);
  return am_apps::kFine;
}

Run declare_shards(CLI::App& command, SharedOptions& shared) {
  auto options = std::make_shared<ShardsOptions>();
  add_plan(command, shared);
  add_rank(
      command,
      "The rank whose parts are shown (default: for each parameter the first rank that has one)",
      options->rank);
  add_option(command, {"--param", "GLOB", "Only parameters whose name matches"}, options->glob);
  return [options, &shared](const Output& output) {
    return run_shards(shared.plan, *options, output);
  };
}

}  // namespace

const Command kShardsCommand = {
    .name = "shards",
    .summary = "Show which part of each parameter a rank holds",
    .example = "am-plan shards plan.toml --rank 3 --param 'model.layers.0.*'",
    .declare = declare_shards,
};

}  // namespace am_plan
