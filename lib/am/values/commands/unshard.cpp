// Defines the commands `unshard` and `reshard`. `unshard` gathers full tensors on every rank, and
// `reshard` frees them. Both commands report the memory of each rank before and after.
#include <set>

#include "am/base/text.h"
#include "am/base/units.h"
#include "am/inspect/commands/held_bytes.h"
#include "am/inspect/render.h"
#include "am/term/printable.h"
#include "am/term/table.h"
#include "am/values/commands/functions.h"

namespace am::values {
namespace {

using Parameters = std::vector<const HeldParameter*>;

int64_t unsharded(const std::vector<HeldBytes>& ranks) {
  int64_t bytes = 0;
  for (const HeldBytes& rank : ranks) bytes += rank.unsharded;
  return bytes;
}

Json boxes_json(const std::vector<HeldShard>& boxes) {
  Json list = Json::array();
  for (const HeldShard& shard : boxes) {
    list.push_back(
        {{"rank", shard.rank}, {"offset", shard.box.offset}, {"shape", shard.box.shape}});
  }
  return list;
}

std::string draw_boxes(const std::vector<HeldShard>& before, const std::vector<HeldShard>& after,
                       const term::Style& style) {
  const auto part_of = [](const std::vector<HeldShard>& boxes, int64_t rank) {
    std::vector<std::string> texts;
    for (const HeldShard& shard : boxes) {
      if (shard.rank == rank) texts.push_back(inspect::box_text(shard.box));
    }
    return texts.empty() ? std::string("nothing") : join(texts, ", ");
  };
  term::Table table({{"rank", term::Align::kRight}, {"holds before"}, {"holds after"}});
  std::set<int64_t> listed;
  for (const HeldShard& shard : after) {
    if (!listed.insert(shard.rank).second) continue;
    table.add(
        {std::to_string(shard.rank), part_of(before, shard.rank), part_of(after, shard.rank)});
  }
  return table.text(style);
}

// Runs `change`, and reports the memory of each rank before and after the change. For a single
// parameter, also reports the boxes that each rank can read without communication. `done`: past
// participle for the report, for example "unsharded".
template <typename Change>
Result measured(Session& session, const Parameters& parameters, const char* done, Change change) {
  ParameterView& view = values_of(session);
  const bool single = parameters.size() == 1;
  const std::vector<HeldBytes> before = view.held_bytes();
  std::vector<HeldShard> boxes_before;
  if (single) boxes_before = view.usable_boxes(*parameters.front());
  const std::vector<std::string> names = change(parameters);
  const std::vector<HeldBytes> after = view.held_bytes();

  Result result;
  result.json = {{"parameters", names}, {"before", to_json(before)}, {"after", to_json(after)}};
  result.text = cat(done, " ", names.size(), names.size() == 1 ? " parameter" : " parameters", ": ",
                    format_bytes(unsharded(before)), " -> ", format_bytes(unsharded(after)),
                    " of full tensors over all ranks\n");
  result.text += inspect::draw_held_bytes(before, after, session.style());
  if (single) {
    const std::vector<HeldShard> boxes_after = view.usable_boxes(*parameters.front());
    result.json["boxes_before"] = boxes_json(boxes_before);
    result.json["boxes_after"] = boxes_json(boxes_after);
    result.text +=
        cat("\n", term::echo(parameters.front()->name), " ", shape_text(parameters.front()->shape),
            "\n", draw_boxes(boxes_before, boxes_after, session.style()));
  }
  return result;
}

}  // namespace

Result run_unshard(Session& session, const Arguments& arguments) {
  const Parameters parameters = session.matching(arguments.words.front());
  session.require_memory(values_of(session).unshard_bytes(parameters), "unsharding this",
                         arguments.has("--force"));
  Result result = measured(session, parameters, "unsharded", [&](const Parameters& chosen) {
    return values_of(session).unshard(chosen, session.between());
  });
  result.json["note"] = values_of(session).unshard_note();
  result.text += session.style().paint(term::Role::kDim, values_of(session).unshard_note()) + "\n";
  return result;
}

Result run_reshard(Session& session, const Arguments& arguments) {
  const Parameters parameters =
      session.matching(arguments.words.empty() ? "all" : arguments.words.front());
  return measured(session, parameters, "resharded",
                  [&](const Parameters& chosen) { return values_of(session).reshard(chosen); });
}

}  // namespace am::values
