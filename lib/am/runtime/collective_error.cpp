#include "am/runtime/collective_error.h"

#include <utility>

#include "am/base/ranks.h"
#include "am/base/text.h"
#include "am/base/units.h"

namespace am::runtime {

namespace {

std::string message(const Collective& collective, const std::string& reason, const Stall& stall) {
  std::string text = cat(collective.describe(), " failed: ", reason);
  if (!stall.text.empty()) text += cat("\n", stall.text);
  return text;
}

}  // namespace

CollectiveError::CollectiveError(Collective collective, bool timed_out, const std::string& reason,
                                 Stall stall)
    : Error(ErrorKind::kPeer, message(collective, reason, stall),
            timed_out
                ? "look at the log of the rank that did not arrive; if it was only slow, give "
                  "a longer timeout"
                : "a peer rank went away, or called another collective, or called this one "
                  "with another size; look at that rank's log"),
      collective_(std::move(collective)),
      timed_out_(timed_out),
      missing_(std::move(stall.missing)) {}

MissingRanks::MissingRanks(const std::string& where, std::vector<int64_t> missing, int64_t size,
                           std::chrono::milliseconds timeout)
    : Error(ErrorKind::kPeer,
            cat(ranks_text(missing), " did not arrive within ",
                format_duration(std::chrono::duration<double>(timeout).count()),
                " to connect group ", where, "; ", size - static_cast<int64_t>(missing.size()),
                " of ", size, " ranks arrived"),
            "look at the log of a missing rank, or give a longer timeout"),
      missing_(std::move(missing)) {}

}  // namespace am::runtime
