// Node 0's verdict on one attempt, serialized for the launchers of all other nodes. An attempt is
// one run of all ranks; each restart of the job begins a new attempt. The text contains all facts
// about the rank that caused the failure and, after a hang, about a rank that reported the hang.
// For every other rank, the text contains only how the rank ended and the rank's last collective.
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

// Facts about an attempt that a launcher cannot derive from its own ranks.
struct Verdict {
  std::optional<FirstCause> cause;  // contains indices into `ranks`
  // How the ranks ended, sorted by rank. In a parsed verdict, all fields are set only for the rank
  // that caused the failure and for the witness (FirstCause::witness). For every other rank, only
  // the fields about the rank's end and last collective are set.
  std::vector<RankExit> ranks;
  bool ended_by_user = false;
  std::vector<int64_t> silent_nodes;
  std::vector<FailedLauncher> failed_launchers;
  std::vector<int64_t> unheard_nodes;  // nodes whose reports the user did not wait for
};

// Returns the verdict as one JSON object, which is small for any number of ranks: ranks that ended
// alike share one entry, long messages and hints are shortened, and only the first four failed
// launchers are listed. Entries that would enlarge the object beyond 64 KiB are left out; entries
// that many ranks share are added first.
std::string to_text(const Verdict& verdict);
// Parses a verdict. `ranks_per_node` determines each rank's node. Returns nothing for an invalid
// text.
std::optional<Verdict> verdict_from(std::string_view text, int64_t ranks_per_node);

// Adds the verdict's facts to `result`, which must contain only the ranks of this launcher's node.
void add(Verdict verdict, JobResult& result);

}  // namespace am::launch
