// One launcher's report of how its node's ranks ended, serialized for the launchers' store.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "am/launch/cause/job_result.h"

namespace am::launch {

struct NodeReport {
  std::vector<RankExit> ranks;
  // Whether the user sent a signal to end the job. No node restarts its ranks then.
  bool ended_by_user = false;
  // Why the launcher gave up, for example before it started its ranks. RankError::rank is not used.
  std::optional<RankError> launcher_error;
};

// Returns the report as one JSON object. RankExit::tail is cut to those last lines of a rank's
// output that fit into 8 KiB.
std::string to_text(const NodeReport& report);
// Parses a report. Returns nothing for an invalid text.
std::optional<NodeReport> node_report_from(std::string_view text);

// Convert one rank's part of a report to JSON and back. to_json() cuts RankExit::tail as to_text()
// does.
Json to_json(const RankExit& rank);
RankExit rank_exit_from(const Json& json);  // throws Json::exception

}  // namespace am::launch
