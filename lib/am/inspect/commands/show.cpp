#include "am/base/ranks.h"
#include "am/base/text.h"
#include "am/base/units.h"
#include "am/inspect/commands/registry.h"
#include "am/inspect/render.h"
#include "am/tensor/dtype.h"

namespace am::inspect {
namespace {

// Of replicas a checkpoint has the first: what the others held is not known.
std::string placement_text(const Session& session, const HeldParameter& parameter,
                           const mesh::Placement& placement) {
  const std::string text = mesh::to_string(placement);
  if (!session.view().at_rest() || placement != mesh::Placement::replicate()) return text;
  std::vector<int64_t> ranks;
  for (const HeldShard& shard : parameter.shards) ranks.push_back(shard.rank);
  return cat(text, ", saved once (by ", ranks_text(ranks), ")");
}

Result run_show(Session& session, const Arguments& arguments) {
  const HeldParameter& parameter = session.parameter(arguments.words.front());
  Result result;
  Json placements = Json::object();
  std::vector<std::string> placed;
  for (const auto& [axis, placement] : parameter.placements) {
    placements[axis] = mesh::to_string(placement);
    placed.push_back(cat(axis, ": ", placement_text(session, parameter, placement)));
  }
  Json shards = Json::array();
  for (const HeldShard& shard : parameter.shards) {
    shards.push_back(
        {{"rank", shard.rank}, {"offset", shard.box.offset}, {"shape", shard.box.shape}});
  }
  result.json = {{"name", parameter.name},
                 {"shape", parameter.shape},
                 {"dtype", tensor::dtype_name(parameter.dtype)},
                 {"bytes", parameter.bytes()},
                 {"placements", placements},
                 {"shards", shards}};
  result.text = draw_facts({{"name", parameter.name},
                            {"shape", cat(shape_text(parameter.shape), ", ",
                                          format_count(parameter.numel()), " elements")},
                            {"dtype", tensor::dtype_name(parameter.dtype)},
                            {"size", format_bytes(parameter.bytes())},
                            {"placements", placed.empty() ? "one piece" : join(placed, ", ")}},
                           session.style()) +
                "\n" + draw_shards(parameter, parameter.shards, session.style());
  return result;
}

}  // namespace

const Command kShowCommand = {
    .name = "show",
    .operands = "PARAM",
    .summary = "one parameter: shape, dtype, placements, which rank holds what",
    .help =
        "The end of a name is enough where only one parameter ends so.\n"
        "Example:  show model.layers.0.self_attn.q_proj.weight\n"
        "JSON: name, shape, dtype, bytes, placements by mesh axis, shards with rank, offset, "
        "shape.",
    .completes = Operand::kParameter,
    .min_words = 1,
    .max_words = 1,
    .run = run_show,
};

}  // namespace am::inspect
