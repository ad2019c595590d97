#include "am/runtime/recent_collectives.h"

#include <algorithm>

namespace am::runtime {

void RecentCollectives::add(const Collective& collective, int64_t bytes) {
  const std::lock_guard lock(mutex_);
  entries_[count_++ % kKept] = {collective, bytes, Clock::now()};
}

Json RecentCollectives::to_json(const std::optional<Progress::Waiting>& waiting,
                                size_t most) const {
  Json list = Json::array();
  const std::lock_guard lock(mutex_);
  const auto now = Clock::now();
  for (size_t i = 0; i < std::min({count_, kKept, most}); ++i) {
    const Entry& entry = entries_[(count_ - 1 - i) % kKept];
    const bool waits = waiting &&
                       waiting->collective.communicator == entry.collective.communicator &&
                       waiting->collective.sequence == entry.collective.sequence;
    list.push_back({{"op", entry.collective.op},
                    {"group", entry.collective.group},
                    {"sequence", entry.collective.sequence},
                    {"bytes", entry.bytes},
                    {"seconds_ago", std::chrono::duration<double>(now - entry.issued).count()},
                    {"waiting", waits}});
  }
  return list;
}

}  // namespace am::runtime
