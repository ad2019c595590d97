// How the ranks of one node ended, as a text for the store that the launchers share.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "am/launch/cause/job_result.h"

namespace am::launch {

struct NodeReport {
  std::vector<RankExit> ranks;
  bool ended_by_user = false;  // by a signal: then no node starts its ranks again
  // Why the launcher itself gave up: it could not start its ranks. Its `rank` means nothing.
  std::optional<RankError> launcher_error;
  // Not from the node, but from node 0: the node's launcher gives no sign of life.
  bool silent = false;
};

// One JSON object, at most about 16 KiB a rank: of `tail` only the last lines that fit into 8 KiB.
std::string to_text(const NodeReport& report);
// Nothing when it is no such text.
std::optional<NodeReport> node_report_from(std::string_view text);

}  // namespace am::launch
