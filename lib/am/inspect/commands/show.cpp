#include <algorithm>

#include "am/base/ranks.h"
#include "am/base/text.h"
#include "am/base/units.h"
#include "am/inspect/commands/table.h"
#include "am/inspect/pick.h"
#include "am/inspect/render.h"
#include "am/inspect/rows.h"

namespace am::inspect {
namespace {

// Returns the placement as text. For a replicated parameter of a checkpoint, adds the ranks that
// saved the parameter, because only one replica saves its values.
std::string placement_text(const Session& session, const HeldParameter& parameter,
                           const mesh::Placement& placement) {
  std::string text = mesh::to_string(placement);
  if (!session.view().at_rest() || placement != mesh::Placement::replicate()) return text;
  std::vector<int64_t> ranks;
  for (const HeldShard& shard : parameter.shards) ranks.push_back(shard.rank);
  return cat(text, ", saved once (by ", ranks_text(ranks), ")");
}

// Returns the placements along all axes as text. Axes that shard the same dim are listed in the
// order in which they cut this dim, the reverse of their order in the mesh. For example, the text
// "tp: Shard(0), then dp_shard_cp: Shard(0)" means that the rows of each tp rank are contiguous.
std::string placements_text(const Session& session, const HeldParameter& parameter) {
  if (parameter.placements.empty()) return "none known";
  std::vector<std::string> cuts;
  std::vector<std::string> others;
  for (const auto& [axis, placement] : parameter.placements) {
    const auto same =
        std::count_if(parameter.placements.begin(), parameter.placements.end(),
                      [cut = placement](const auto& each) { return each.second == cut; });
    const bool again = placement != mesh::Placement::replicate() && same > 1;
    (again ? cuts : others)
        .push_back(cat(axis, ": ", placement_text(session, parameter, placement)));
  }
  std::reverse(cuts.begin(), cuts.end());
  if (!cuts.empty()) others.push_back(join(cuts, ", then "));
  return join(others, ", ");
}

Json shown_json(const HeldParameter& parameter) {
  Json placements = Json::object();
  for (const auto& [axis, placement] : parameter.placements) {
    placements[axis] = mesh::to_string(placement);
  }
  Json shards = Json::array();
  for (const HeldShard& shard : parameter.shards) {
    shards.push_back(
        {{"rank", shard.rank}, {"offset", shard.box.offset}, {"shape", shard.box.shape}});
  }
  return {{"name", parameter.name},
          {"shape", parameter.shape},
          {"dtype", formats::torch_name(parameter.dtype)},
          {"bytes", parameter.bytes()},
          {"placements", placements},
          {"shards", shards}};
}

Result show_one(const Session& session, const HeldParameter& parameter) {
  Result result;
  result.json = shown_json(parameter);
  result.text = draw_facts({{"name", parameter.name},
                            {"shape", cat(shape_text(parameter.shape), ", ",
                                          format_count(parameter.numel()), " elements")},
                            {"dtype", formats::torch_name(parameter.dtype)},
                            {"size", format_bytes(parameter.bytes())},
                            {"placements", placements_text(session, parameter)}},
                           session.style()) +
                "\n" + draw_shards(parameter, parameter.shards, session.style());
  return result;
}

// Returns a table with one row per parameter.
Result show_many(const Session& session, const std::vector<Picked>& all) {
  Rows rows({{"name", {}, RowKind::kText},
             {"shape", {}, RowKind::kText},
             {"dtype", {}, RowKind::kText},
             {"bytes", "size", RowKind::kBytes},
             {"placed", "placements", RowKind::kText},
             {"pieces", {}, RowKind::kCount}});
  Json list = Json::array();
  for (const Picked& picked : all) {
    list.push_back(shown_json(*picked.parameter));
    rows.add({{"name", picked.parameter->name},
              {"shape", picked.parameter->shape},
              {"dtype", list.back()["dtype"]},
              {"bytes", picked.parameter->bytes()},
              {"placed", placements_text(session, *picked.parameter)},
              {"pieces", picked.parameter->shards.size()}});
  }
  Result result;
  rows.give(result, "parameters", session, list);
  return result;
}

}  // namespace

Result run_show(Session& session, const Arguments& arguments) {
  const std::vector<Picked> all = pick_tensors(session, arguments.words);
  return all.size() == 1 ? show_one(session, *all.front().parameter) : show_many(session, all);
}

}  // namespace am::inspect
