// Finds the rank that failed first, from the exit status, signal and error report of every rank.
//
//   result.cause = find_cause(result.ranks);
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "am/launch/cause/job_result.h"

namespace am::launch {

// Returns the rank that failed first, by the rules in Note [Which rank failed first]. Returns
// nullopt if no rank failed by itself. A hanging rank that is not in `ranks` is assumed to be on
// node number rank / ranks_per_node or, if `ranks_per_node` is 0, on the node of the rank that
// reports the hang.
std::optional<FirstCause> find_cause(std::span<const RankExit> ranks, int64_t ranks_per_node = 0);

// Returns whether the failure that a rank reports may be a consequence of another rank's failure:
// the rank lost its connection to a peer, waited for a peer, or left a report of torchelastic's
// decorator `record`, which does not show the cause. Another rank may then report the cause later.
bool may_be_consequence(const RankExit& rank);

}  // namespace am::launch
