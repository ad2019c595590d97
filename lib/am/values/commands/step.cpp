// Defines the commands `step` and `collectives` for the ranks of a plan. Running jobs implement
// these commands in live/verbs.cpp and live/hang.cpp.
#include "am/inspect/training_answers.h"
#include "am/values/commands/functions.h"

namespace am::values {
Result run_step(Session& session, const Arguments& arguments) {
  return inspect::step_result(values_of(session).train(steps_in(arguments), session.between()));
}

Result run_collectives(Session& session, const Arguments& arguments) {
  const std::vector<Json> all = values_of(session).recent_collectives();
  const auto only = rank_in(arguments, static_cast<int64_t>(all.size()));
  Result result;
  Json ranks = Json::array();
  for (size_t rank = 0; rank < all.size(); ++rank) {
    if (only && *only != static_cast<int64_t>(rank)) continue;
    ranks.push_back({{"rank", rank}, {"collectives", all[rank]}});
    result.text += inspect::draw_collectives(cat("rank ", rank), all[rank], all.size() > 1 && !only,
                                             session.style());
  }
  result.json = {{"ranks", ranks}};
  return result;
}

}  // namespace am::values
