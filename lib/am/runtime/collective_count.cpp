#include "am/runtime/collective_count.h"

#include <algorithm>

namespace am::runtime {

void count_collective(std::vector<CollectiveCount>& counts, const Collective& collective,
                      int64_t bytes) {
  const auto same = [&](const CollectiveCount& each) {
    return each.op == collective.op && each.group == collective.group;
  };
  auto found = std::find_if(counts.begin(), counts.end(), same);
  if (found == counts.end()) {
    found = counts.insert(counts.end(), {collective.op, collective.group});
  }
  found->bytes += bytes;
  ++found->count;
}

}  // namespace am::runtime
