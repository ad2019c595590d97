#include "am/inspect/commands/held_bytes.h"
#include "am/inspect/commands/registry.h"
#include "am/inspect/render.h"

namespace am::inspect {

Json to_json(const std::vector<HeldBytes>& ranks) {
  Json list = Json::array();
  for (const HeldBytes& rank : ranks) {
    list.push_back({{"rank", rank.rank},
                    {"sharded_bytes", rank.sharded},
                    {"unsharded_bytes", rank.unsharded}});
  }
  return list;
}

namespace {

Result run_memory(Session& session, const Arguments&) {
  const std::vector<HeldBytes> ranks = session.holder().held_bytes();
  Result result;
  result.json["ranks"] = to_json(ranks);
  result.text = draw_held_bytes({}, ranks, session.style());
  return result;
}

}  // namespace

const Command kMemoryCommand = {
    .name = "memory",
    .operands = "",
    .summary = "what each rank holds: shards, and full tensors beside them",
    .help =
        "Sharded bytes include FSDP's padding. At rest they are the bytes in the files that each "
        "rank wrote.\n"
        "JSON: ranks, each with rank, sharded_bytes, unsharded_bytes.",
    .run = run_memory,
};

}  // namespace am::inspect
