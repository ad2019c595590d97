// Node 0's verdict on an attempt, serialized for the launchers of all other nodes: all facts of the
// cause, and for every other rank only how it ended and its last collective.
//
//   store.set("verdict", to_text(verdict));                    // on node 0
//   add(*verdict_from(text, ranks_per_node), result);          // on the other nodes
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "am/launch/cause/job_result.h"

namespace am::launch {

// Facts about an attempt that a launcher cannot know from its own ranks.
struct Verdict {
  std::optional<FirstCause> cause;  // contains indices into `ranks`
  // How the ranks ended, sorted by rank. All fields are set for the rank that caused the failure
  // and for its witness; for other ranks only how they ended and their last collective.
  std::vector<RankExit> ranks;
  bool ended_by_user = false;
  std::vector<int64_t> silent_nodes;
  std::vector<FailedLauncher> failed_launchers;
  std::vector<int64_t> unheard_nodes;  // nodes whose reports the user did not wait for
};

// Returns the verdict as one JSON object of about 64 KiB at most, for any number of ranks: ranks
// that ended alike share one entry, long messages and hints are shortened, and only four failed
// launchers are listed. If the object is still too large, ends that few ranks share are left out.
std::string to_text(const Verdict& verdict);
// Parses a verdict. `ranks_per_node` determines each rank's node. Returns nothing for an invalid
// text.
std::optional<Verdict> verdict_from(std::string_view text, int64_t ranks_per_node);

// Adds the verdict's facts to `result`, which must contain only the ranks of this launcher's node.
void add(Verdict verdict, JobResult& result);

}  // namespace am::launch
