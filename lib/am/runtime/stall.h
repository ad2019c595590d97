// Finds the ranks for which a collective waits, from the ranks' last published states (RankState).
//
// Note [Finding the missing rank]: a rank that waits in a collective waits for the members of its
// group that have not issued that collective yet. Such a member may itself wait in a collective of
// another group; then the ranks for which it waits are the cause, and so on. The walk ends at ranks
// that wait in no collective, that failed, or that are silent: these ranks are `missing`. A walk
// that meets only waiting ranks has found a cycle: the ranks issued their collectives in different
// orders.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "am/runtime/progress.h"

namespace am::runtime {

// Reason why a collective does not end.
struct Stall {
  std::vector<int64_t> missing;  // ranks for which the other ranks wait; empty: unknown
  std::string text;              // "rank 1 did not arrive: it is at step 7, in no collective"
  bool circle = false;           // ranks wait in a cycle: `missing` are its ranks except `self`
};

struct PeerView {
  std::optional<RankState> state;  // nothing: the rank never published one
  double silent_seconds = 0.0;     // since its state last changed, by this rank's clock
};

// Returns why `waiting`, in which rank `self` waits, does not end. `peers` must include the state
// of `self`, otherwise the walk would end there. Collectives are compared by communicator and
// sequence. A rank silent for `silent_limit_seconds` counts as stopped; 0: silence is ignored.
Stall find_stall(const Collective& waiting, int64_t self, const std::map<int64_t, PeerView>& peers,
                 double silent_limit_seconds);

// Returns the ranks whose states find_stall needs: members of the group, and of the groups in which
// its missing members wait. With their states in `peers`, the next call may return more ranks.
std::vector<int64_t> ranks_to_ask(const Collective& waiting, int64_t self,
                                  const std::map<int64_t, PeerView>& peers);

}  // namespace am::runtime
