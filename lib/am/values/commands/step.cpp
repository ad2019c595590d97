// Defines the commands `step` and `collectives` for ranks that am-repl started. For sessions that
// are attached to a running job, live/verbs.cpp and live/hang.cpp implement these commands.
#include <algorithm>

#include "am/inspect/training_answers.h"
#include "am/mesh/rank_set.h"
#include "am/values/commands/functions.h"

namespace am::values {
Result run_step(Session& session, const Arguments& arguments) {
  return inspect::step_result(values_of(session).train(steps_in(arguments), session.between()));
}

Result run_collectives(Session& session, const Arguments& arguments) {
  const std::vector<Json> all = values_of(session).recent_collectives();
  const auto ranks = mesh::select_ranks(values_of(session).mesh(), arguments.words);
  const bool few = ranks ? ranks->size() > 1 : all.size() > 1;
  Result result;
  Json rows = Json::array();
  for (size_t rank = 0; rank < all.size(); ++rank) {
    const auto number = static_cast<int64_t>(rank);
    if (ranks && !std::binary_search(ranks->begin(), ranks->end(), number)) continue;
    rows.push_back({{"rank", rank}, {"collectives", all[rank]}});
    result.text += inspect::draw_collectives(cat("rank ", rank), all[rank], few, session.style());
  }
  result.json = {{"ranks", rows}};
  return result;
}

}  // namespace am::values
