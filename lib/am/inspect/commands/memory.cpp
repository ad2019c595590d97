#include "am/inspect/commands/held_bytes.h"
#include "am/inspect/commands/registry.h"
#include "am/inspect/render.h"

namespace am::inspect {

Json to_json(const std::vector<HeldBytes>& ranks) {
  Json list = Json::array();
  for (const HeldBytes& rank : ranks) {
    list.push_back({{"rank", rank.rank},
                    {"sharded_bytes", rank.sharded},
                    {"unsharded_bytes", rank.unsharded},
                    {"gradient_bytes", rank.gradients},
                    {"optimizer_bytes", rank.optimizer},
                    {"model_bytes", rank.model}});
  }
  return list;
}

namespace {

Result run_memory(Session& session, const Arguments&) {
  const std::vector<HeldBytes> ranks = session.view().held_bytes();
  Result result;
  const bool at_rest = session.view().at_rest();
  result.json["ranks"] = to_json(ranks);
  result.json["at_rest"] = at_rest;
  result.text = draw_held_bytes({}, ranks, session.style());
  if (at_rest && session.view().mesh().world_size() > 1) {
    result.text += session.style().paint(
        term::Role::kDim, "bytes in the files of each rank: only the first replica is saved\n");
  }
  return result;
}

}  // namespace

const Command kMemoryCommand = {
    .name = "memory",
    .operands = "",
    .summary = "bytes that each rank holds: shards, full tensors, gradients, optimizer states",
    .help =
        "Sharded bytes include FSDP's padding. For a checkpoint on disk they are the bytes of "
        "parameters in the files that each\n"
        "rank wrote, not those that it held in the job: only the first replica is saved.\n"
        "A checkpoint's model is in memory from the first loss, logprob, generate or grad on. "
        "Kinds that no rank\n"
        "holds have no column.",
    .json = "{ranks: [RankBytes], at_rest: boolean}",
    .run = run_memory,
};

}  // namespace am::inspect
