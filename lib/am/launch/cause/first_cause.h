// Finds the rank that failed first, from the exit status, signal and error report of every rank.
//
//   result.cause = find_cause(result.ranks);
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "am/launch/cause/job_result.h"

namespace am::launch {

// Returns the rank that failed first, or nothing if no rank failed by itself. `ranks_per_node` is
// used to compute the node of a hanging rank that is not in `ranks`; 0: such a rank is taken to be
// on the node of the rank that reports the hang.
// See Note [Which rank failed first].
std::optional<FirstCause> find_cause(std::span<const RankExit> ranks, int64_t ranks_per_node = 0);

// Returns whether the failure that a rank reports may be a consequence of another rank's failure:
// the rank lost its connection to a peer, waited for a peer, or left a report of torch's `record`,
// which does not show the cause. Another rank may then report the cause later.
bool may_be_consequence(const RankExit& rank);

}  // namespace am::launch
