#include "am/live/silence.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "am/base/ranks.h"
#include "am/base/text.h"

namespace am::live {

std::string silence_text(const Silent& silent, bool one) {
  if (silent.process.empty()) return one ? "does not answer" : "do not answer";
  if (silent.process == "running") {
    return one ? "does not answer, though its process runs"
               : "do not answer, though their processes run";
  }
  return cat(one ? "its process is " : "their processes are ", silent.process);
}

std::string silence_lines(const std::map<int64_t, Silent>& silent) {
  // Each process state with the ranks in this state, ordered by the lowest rank.
  std::vector<std::pair<std::string, std::vector<int64_t>>> kinds;
  for (const auto& [rank, about] : silent) {
    const std::string& process = about.process;
    const auto same = [&](const auto& kind) { return kind.first == process; };
    const auto found = std::find_if(kinds.begin(), kinds.end(), same);
    if (found != kinds.end()) {
      found->second.push_back(rank);
    } else {
      kinds.push_back({process, {rank}});
    }
  }
  std::string text;
  for (const auto& [process, ranks] : kinds) {
    text += cat(ranks_text(ranks), ": ", silence_text({process, {}}, ranks.size() == 1), "\n");
  }
  return text;
}

}  // namespace am::live
