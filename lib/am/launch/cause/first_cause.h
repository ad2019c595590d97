// Which rank failed first: the judgement over how all ranks ended.
//
//   result.cause = find_cause(result.ranks);
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "am/launch/cause/job_result.h"

namespace am::launch {

// Nothing when no rank failed by itself. `ranks_per_node` tells the node of a rank that is not
// among `ranks`; 0: all are on one node. See Note [Which rank failed first].
std::optional<FirstCause> find_cause(std::span<const RankExit> ranks, int64_t ranks_per_node = 0);

// The end was reported by a rank that is perhaps no better than a witness: it lost a peer, or
// waited for one; or nobody knows, because the report is torch's own. A true cause may still come.
bool may_be_consequence(const RankExit& rank);

}  // namespace am::launch
