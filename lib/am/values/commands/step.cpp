// The commands `step` and `collectives` for the ranks of a plan; a running job has its own
// (live/verbs.cpp, live/hang.cpp).
#include "am/inspect/training_answers.h"
#include "am/values/commands/registry.h"

namespace am::values {
namespace {

Result run_step(Session& session, const Arguments& arguments) {
  return step_result(values_of(session).train(steps_in(arguments), session.between()));
}

Result run_collectives(Session& session, const Arguments& arguments) {
  const std::vector<Json> all = values_of(session).recent_collectives();
  const auto only = rank_in(arguments, static_cast<int64_t>(all.size()));
  Result result;
  Json ranks = Json::array();
  for (size_t rank = 0; rank < all.size(); ++rank) {
    if (only && *only != static_cast<int64_t>(rank)) continue;
    ranks.push_back({{"rank", rank}, {"collectives", all[rank]}});
    result.text +=
        draw_collectives(cat("rank ", rank), all[rank], all.size() > 1 && !only, session.style());
  }
  result.json = {{"ranks", ranks}};
  return result;
}

}  // namespace

const Command kCollectivesCommand = {
    .name = "collectives",
    .operands = "[RANK | all]",
    .summary = "the last collectives of each rank, or of one, in a plan or a running job",
    .help =
        "Shows each collective with its number in its group, its bytes and its age, and marks the "
        "one in which the rank\nwaits. With several ranks, shows the newest four of "
        "each.\nExample:  collectives 2",
    .json =
        "{ranks: [{rank: integer, collectives: [{op: string, group: string, sequence: "
        "integer, bytes: integer, seconds_ago: number, waiting: boolean}]}]}",
    .max_words = 1,
    .run = run_collectives,
    .live = true,
};

const Command kStepCommand = {
    .name = "step",
    .operands = "[N]",
    .summary =
        "train N steps (default 1): a plan's ranks on its data, or a running job, which is "
        "then paused again",
    .help =
        "Answers when the steps are done. A plan's ranks start at step 1 from the weights in "
        "memory, and save\n"
        "nothing. Unsharded tensors are freed; `grad` and `optim` show the step's gradients and "
        "states.\n"
        "Example:  pause; step 3; stats *.norm.weight; continue",
    .json =
        "{step: integer, loss: number | null, grad_norm: number | null, paused?: boolean (of "
        "a job)}",
    .max_words = 1,
    .run = run_step,
    .live = true,
    .lasts = true,
};

}  // namespace am::values
