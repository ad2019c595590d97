// Summaries of all ranks' answers: where each rank is, and which ranks the others wait for.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "am/base/json.h"
#include "am/inspect/command.h"
#include "am/live/rank_agents.h"
#include "am/term/style.h"

namespace am::live {

// Returns the question (for RankStatus::answer) that the command `what` sends to the ranks. `one`:
// about a single rank.
Json question_of(const std::string& what, bool one, int64_t world_size);

// Results of `ranks`, `collectives` and `stack`. With more than 16 ranks, ranks in the same state
// share a row.
inspect::Result describe_ranks(const Answers& answers, const term::Style& style);
inspect::Result describe_collectives(const Answers& answers, const term::Style& style);
// Throws Error(kUsage) if the rank is silent or its thread wrote no stack.
inspect::Result describe_stack(int64_t rank, const Answers& answers);
// Stacks of all ranks; equal stacks are shown once.
inspect::Result describe_stacks(const Answers& answers);

}  // namespace am::live
