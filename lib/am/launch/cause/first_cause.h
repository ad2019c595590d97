// Finds the rank that failed first, from how all ranks ended.
//
//   result.cause = find_cause(result.ranks);
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "am/launch/cause/job_result.h"

namespace am::launch {

// Returns the rank that failed first, or nothing if no rank failed by itself. `ranks_per_node`
// serves to compute the node of a missing rank that is not among `ranks`; 0 means that all ranks
// are on one node. See Note [Which rank failed first].
std::optional<FirstCause> find_cause(std::span<const RankExit> ranks, int64_t ranks_per_node = 0);

// Returns whether the failure that a rank reports may be a consequence of another rank's failure:
// the rank lost a peer, waited for one, or wrote torch's own report, which does not show the cause.
// If so, the other rank may report its failure later.
bool may_be_consequence(const RankExit& rank);

}  // namespace am::launch
