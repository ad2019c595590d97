// Formats the answers of all ranks for the user: what each rank is doing, and which ranks hold up
// the others.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "am/base/json.h"
#include "am/inspect/command.h"
#include "am/live/rank_agents.h"
#include "am/term/style.h"

namespace am::live {

// Returns the argument of RankStatus::answer() for the command `what`. `one` is true if the command
// concerns a single rank.
Json question_of(const std::string& what, bool one, int64_t world_size);

// Return the results of the commands `ranks` and `collectives`. If more than 16 ranks are shown,
// those in the same state share a row, and those that issued the same collectives share a table.
inspect::Result describe_ranks(const Answers& answers, const term::Style& style);
inspect::Result describe_collectives(const Answers& answers, const term::Style& style);
// Returns the result of the command `stack` for one rank. Throws Error(kUsage) if the rank did not
// answer or its training thread wrote no stack.
inspect::Result describe_stack(int64_t rank, const Answers& answers);
// Returns the result of the command `stack` for all ranks. Equal stacks are shown once.
inspect::Result describe_stacks(const Answers& answers);
// Returns the result of the command `what` for all ranks: `ranks`, `collectives`, `stack` or
// `stragglers` (stragglers.h).
inspect::Result describe_answers(std::string_view what, const Answers& answers,
                                 const term::Style& style);

}  // namespace am::live
