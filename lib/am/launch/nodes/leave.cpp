#include "am/launch/nodes/leave.h"

#include <chrono>
#include <set>

#include "am/base/error.h"
#include "am/launch/nodes/ask.h"
#include "am/launch/nodes/node_rendezvous.h"

namespace am::launch {
namespace {

// Returns the nodes other than 0 whose launchers may still read the store.
std::set<int64_t> present_nodes(const JobSpec& spec, const JobResult& last) {
  std::set<int64_t> nodes;
  for (int64_t node = 1; node < spec.num_nodes; ++node) nodes.insert(node);
  for (const int64_t node : last.silent_nodes) nodes.erase(node);
  for (const FailedLauncher& failed : last.failed_launchers) nodes.erase(failed.node);
  return nodes;
}

}  // namespace

void leave(const JobSpec& spec, const JobResult& last) {
  constexpr auto kPatience = std::chrono::seconds(3);
  constexpr int kMostTimes = 20;
  if (spec.store == nullptr || spec.num_nodes == 1 || !last.store_error.empty()) return;
  try {
    NodeRendezvous rendezvous(*spec.store, spec.run_id, last.restarts, spec.node_rank,
                              spec.num_nodes);
    if (spec.node_rank != 0) return rendezvous.leave();
    if (last.killed_by_user || last.wait_cut) return;
    std::set<int64_t> present = present_nodes(spec, last);
    const auto all_left = [&] {
      std::erase_if(present, [&](int64_t node) { return rendezvous.has_left(node); });
      return present.empty();
    };
    // Waits again as long as nodes keep leaving, because the remaining nodes may only be slow.
    for (int times = 0; times < kMostTimes && !present.empty(); ++times) {
      const size_t before = present.size();
      ask(all_left, kPatience);
      if (present.size() == before) break;
    }
  } catch (const Error&) {
    // The store is lost, so no other node waits for this node.
  }
}

}  // namespace am::launch
