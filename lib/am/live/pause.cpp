#include "am/live/pause.h"

#include <algorithm>

#include "am/base/text.h"
#include "am/base/units.h"

namespace am::live {

namespace {

std::string seconds_text(std::chrono::milliseconds time) {
  return format_duration(std::chrono::duration<double>(time).count());
}

}  // namespace

void Pause::begin(uint64_t owner, const std::string& who, Clock::time_point now) {
  owner_ = owner;
  who_ = who;
  since_ = used_ = now;
}

std::optional<std::string> Pause::why_over(Clock::time_point now, Clock::time_point alive,
                                           bool owner_is_there) const {
  if (!active()) return std::nullopt;
  if (!owner_is_there) return "the client that paused the job has left";
  if (now - std::max(alive, since_) >= limits_.silent) {
    return cat("the client that paused the job has sent no keep-alive message for ",
               seconds_text(limits_.silent));
  }
  if (now - used_ >= limits_.idle) {
    return cat("no command came for ", seconds_text(limits_.idle));
  }
  return std::nullopt;
}

}  // namespace am::live
