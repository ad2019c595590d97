// `step` and `collectives`, which the ranks of a plan answer as a job that runs does
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
    result.text += draw_collectives(static_cast<int64_t>(rank), all[rank], all.size() > 1 && !only,
                                    session.style());
  }
  result.json = {{"ranks", ranks}};
  return result;
}

}  // namespace

const Command kCollectivesCommand = {
    .name = "collectives",
    .operands = "[RANK]",
    .summary = "the last collectives of each rank, or of one: of a plan's ranks, of a running job",
    .help =
        "What was issued last, with its number in its group, its bytes and since when; the one "
        "that is waited for is marked.\n"
        "Example:  collectives 2",
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
    .summary = "train N steps (1): of a plan, on its data; of a running job, which is held again",
    .help =
        "Answers when they are done. A plan's ranks begin with step 1 and the weights that they "
        "have; nothing is saved. What\n"
        "was unsharded is freed; `grad` and `optim` say what the step did.\n"
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
