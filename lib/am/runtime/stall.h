// Who keeps everybody waiting? From what each rank last said about itself (RankState), the ranks
// that a collective waits for.
//
// Note [Finding the missing rank]: a rank that waits in a collective names the members of its group
// that have not issued that collective yet. Each of those may itself be waiting in a collective of
// another group; then what they wait for is the cause, and so on. The walk ends at ranks that wait
// in no collective, that failed, or that give no sign of life: they are `missing`. A walk that
// meets only ranks that wait has gone round: the ranks issued their collectives in different
// orders.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "am/runtime/progress.h"

namespace am::runtime {

// Why a collective does not end.
struct Stall {
  std::vector<int64_t> missing;  // the ranks that everybody waits for; empty: not known
  std::string text;              // "rank 1 did not arrive: it is at step 7, in no collective"
};

struct PeerView {
  std::optional<RankState> state;  // nothing: it never said anything
  double silent_seconds = 0.0;     // since its state last changed, by this rank's clock
};

// Collectives are compared by communicator and sequence. `self`: the rank that waits in `waiting`;
// `peers` holds its own state too, or a wait that comes round to it ends there.
// A rank silent for `silent_limit_seconds` counts as stopped; 0: silence says nothing.
Stall find_stall(const Collective& waiting, int64_t self, const std::map<int64_t, PeerView>& peers,
                 double silent_limit_seconds);

// The ranks whose states find_stall needs beyond those it was given: members of the groups in which
// known ranks wait.
std::vector<int64_t> ranks_to_ask(const Collective& waiting, int64_t self,
                                  const std::map<int64_t, PeerView>& peers);

}  // namespace am::runtime
