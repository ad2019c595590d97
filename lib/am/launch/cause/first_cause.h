// Finds the rank that failed first, from how all ranks ended.
//
//   result.cause = find_cause(result.ranks);
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "am/launch/cause/job_result.h"

namespace am::launch {

// Returns nothing if no rank failed by itself. `ranks_per_node` gives the node of a rank that is
// not among `ranks`; 0: all ranks are on one node. See Note [Which rank failed first].
std::optional<FirstCause> find_cause(std::span<const RankExit> ranks, int64_t ranks_per_node = 0);

// Returns whether the failure that the rank reports may be a consequence of another rank's: the
// rank lost a peer, waited for one, or wrote torch's own report, which does not show the cause. The
// true cause may still be reported.
bool may_be_consequence(const RankExit& rank);

}  // namespace am::launch
