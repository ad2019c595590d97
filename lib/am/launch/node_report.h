// How the ranks of one node ended, as a text for the board that the launchers share.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "am/launch/job_result.h"

namespace am::launch {

struct NodeReport {
  std::vector<RankExit> ranks;
  // The user's signal, or an end by force: then no node starts its ranks again.
  bool ended_by_user = false;
};

// One JSON object, at most about 16 KiB a rank: of `tail` only the last lines that fit into 8 KiB.
std::string to_text(const NodeReport& report);
// Nothing when it is no such text.
std::optional<NodeReport> node_report_from(std::string_view text);

}  // namespace am::launch
