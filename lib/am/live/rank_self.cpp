#include "am/live/rank_self.h"

#include <unistd.h>

#include "am/base/host.h"
#include "am/tensor/process_memory.h"

namespace am::live {

namespace {

// A thread that computes writes its stack down within microseconds.
constexpr auto kStackPatience = std::chrono::milliseconds(500);

}  // namespace

RankSelf::RankSelf(const runtime::World& world) : rank_(world.rank()), context_(world.context()) {}

Json RankSelf::answer(const std::string& what) {
  Json json = {{"rank", rank_},
               {"state", context_->progress.state(rank_).to_json()},
               {"phase", status.phase()},
               {"memory_bytes", tensor::resident_bytes()}};
  if (what == "collectives") {
    json["collectives"] = collectives.to_json(context_->progress.waiting());
  }
  if (what == "stack") {
    const std::lock_guard lock(probe_mutex_);
    json["frames"] = probe_ != nullptr ? Json(probe_->take(kStackPatience)) : Json::array();
  }
  return json;
}

void RankSelf::set_probe(StackProbe* probe) {
  const std::lock_guard lock(probe_mutex_);
  probe_ = probe;
}

Json RankSelf::who() {
  return {{"host", host_name()}, {"boot_id", boot_id()}, {"pid", ::getpid()}};
}

}  // namespace am::live
