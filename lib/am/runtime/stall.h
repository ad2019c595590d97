// Finds the ranks for which a collective waits, from the ranks' last published states (RankState).
//
// Note [Finding the missing rank]: a rank that waits in a collective waits for the members of its
// group that have not issued that collective yet. A member that has not issued it may itself wait
// in a collective of another group; then the ranks for which that member waits are the cause, and
// so on. This chain of waits ends at ranks that wait for no other rank, that failed, or that are
// silent. Stall::missing lists the failed and the silent ranks or, if there are none, all ranks at
// which the chain ends. If all ranks on the chain wait for other ranks, the chain is a cycle: the
// ranks issued their collectives in different orders.
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
  // Explanation for the user, for example "rank 1 did not arrive; last heard 2.0 s ago: ...".
  std::string text;
  // Whether ranks wait for each other in a cycle; `missing` then lists the ranks of the chain of
  // waits, except the rank that called find_stall().
  bool circle = false;
};

struct PeerView {
  std::optional<RankState> state;  // last published state; nothing: none was read
  // Time since `state` last changed, by the clock of a rank that reads the state.
  double silent_seconds = 0.0;
};

// Returns why `waiting`, in which rank `self` waits, does not end. `peers` must include the state
// of `self`, because a rank without a state counts as silent and would be blamed. Collectives are
// compared by communicator and sequence number. A rank whose state has not changed for
// `silent_limit_seconds` counts as silent; 0: only ranks without a state count as silent.
Stall find_stall(const Collective& waiting, int64_t self, const std::map<int64_t, PeerView>& peers,
                 double silent_limit_seconds);

// Returns the ranks, except `self`, whose states find_stall needs: the members of the group of
// `waiting`, and of each group in which a missing member waits. After the caller has added the
// states of these ranks to `peers`, another call may return more ranks.
std::vector<int64_t> ranks_to_ask(const Collective& waiting, int64_t self,
                                  const std::map<int64_t, PeerView>& peers);

}  // namespace am::runtime
