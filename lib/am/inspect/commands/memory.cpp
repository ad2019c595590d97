#include "am/inspect/commands/held_bytes.h"
#include "am/inspect/commands/table.h"
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

}  // namespace am::inspect
